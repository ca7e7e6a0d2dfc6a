"""The thin junction-tree circuit: one table from noisy one-ways and noisy pair tables."""

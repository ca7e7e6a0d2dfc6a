"""One graphical model per table, learned from noisy marginals: select, measure, estimate, generate."""

"""A graphical model per table from noisy marginals: select, measure, estimate, generate."""

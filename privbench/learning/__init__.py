"""Learning from noisy measurements: what synthesizers share, graphical models, and circuits."""

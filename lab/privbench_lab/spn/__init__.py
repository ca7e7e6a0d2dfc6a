"""Growing a sum-product network under differential privacy (the paper's Algorithms 2 to 6)."""

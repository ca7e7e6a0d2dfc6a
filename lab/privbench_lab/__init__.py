"""Research beside privbench: synthesizers of papers, a benchmark grid, an audit, the heat map."""

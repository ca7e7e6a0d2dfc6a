"""Queries of the private database. Each states its sensitivity and proves it in its docstring."""

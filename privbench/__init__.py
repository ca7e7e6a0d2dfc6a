"""Publish benchmarks from private PostgreSQL databases under differential privacy."""

__version__ = "0.1.0"

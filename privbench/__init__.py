"""Publish benchmarks from private PostgreSQL databases under database-level differential privacy."""

__version__ = "0.1.0"

"""Workload formats of papers, and kinds of generated workloads in their manner."""

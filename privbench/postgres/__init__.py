"""The PostgreSQL side: connections, the catalog, snapshots of rows, DDL, loading.

Whatever asks a server may raise a `DatabaseError` (it refused, or is gone), of which `AccessDenied`
and `ConnectionFailed` are kinds. Docstrings name errors that say more than that.
"""

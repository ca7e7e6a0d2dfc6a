"""The PostgreSQL side: connections, the catalog, snapshots of rows, DDL, loading.

Its concepts are `Connection`, `introspect` (reads a `Schema`), `Snapshot` (one moment of the rows),
`Ddl` (what makes the schema again) and `Loader`.

Every function that sends something to a server may raise a `DatabaseError`, of which `AccessDenied`
and `ConnectionFailed` are kinds, if the server refuses or is gone. Docstrings do not repeat that.
"""

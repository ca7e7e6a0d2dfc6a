"""The PostgreSQL side: connections, the catalog, snapshots of rows, DDL, loading.

Its concepts are `Connection`, `introspect` (reads a `Schema`), `Snapshot` (the rows at one moment),
`Ddl` (the statements that create the schema again) and `Loader` (writes a clone).

Every function that sends something to a server may raise a `DatabaseError`, of which `AccessDenied`
and `ConnectionFailed` are kinds, if the server refuses or is gone. Docstrings do not repeat that.
"""

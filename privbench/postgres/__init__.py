"""The PostgreSQL side: connections, the catalog, snapshots of rows, DDL, loading."""

"""Rules that a schema states about rows, as values: a `Rule` has a kind, columns, source and text.

* `parse` reads CHECKs and indexes, once: when the catalog is read, and when a stranger's model is
  checked. No other package except `pgsql` and `workload` reads trees of SQL.
* `named` knows what names suggest, such as the order of two dates. * `facts` collects the rules of
a table (`with_rules`), and answers what they say of a column. * `texts` makes texts that match a
pattern, have a case, or lie between two others. * `values` extracts values from a CHECK that a
repair tries in rows that break it.
"""

"""What a schema says of rows, as values: a `Rule` has a kind, columns, a source and a text.

* `parse` reads CHECKs and indexes, once: when the catalog is read, and when a stranger's model is
  checked. No other package but `pgsql` and `workload` reads trees of SQL.
* `named` knows what names suggest, such as the order of two dates.
* `facts` puts the rules of a table together (`with_rules`), and answers what they say of a column.
* `texts` makes texts that match a pattern, keep a case, or lie between two others.
* `values` cuts values to try out of a CHECK, for rows that break it.
"""

"""The systems of other papers as synthesizers, beside the tool's own; no module below imports them.

Each is rebuilt from its paper on the session's queries, so that every number that is learned from
rows is charged and noisy. `proofs` says of each method whether its published proof holds. A
ConfigError says which option does not fit the tables, before anything is spent.
"""

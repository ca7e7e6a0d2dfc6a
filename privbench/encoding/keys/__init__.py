"""Keys of synthetic rows: the columns that are keys, their values, references and uniqueness."""

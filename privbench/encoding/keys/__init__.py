"""Keys of synthetic rows: which columns are keys, their values, references and uniqueness."""

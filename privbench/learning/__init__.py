"""Learning from noisy measurements: graphical models, and what all synthesizers share.

Its concepts are `Measured` (a noisy measurement), `Variable` (a column whose cells are grouped),
`PairLearner` (selects and measures pairs of columns), `TableModel` (the distribution of one table's
rows) and `SyntheticTable` (sampled rows).
"""

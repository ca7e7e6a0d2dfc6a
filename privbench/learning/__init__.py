"""Learning from noisy measurements: what synthesizers share, graphical models, and circuits.

`Measured` (a noisy measurement), `Variable` (a column in groups), `PairLearner`, `TableModel`,
`SyntheticTable`.
"""

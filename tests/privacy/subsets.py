"""A public subset of a table's rows, as a synthesizer might count in."""

from dataclasses import dataclass

import numpy as np

from privbench.privacy.queries import RowSubset


@dataclass(frozen=True)
class WithCodes(RowSubset):
    """The rows in which an attribute has one of some codes."""

    table: str
    attribute: str
    codes: tuple[int, ...]

    def rows(self, data):
        codes, _ = data._codes(self.table, self.attribute)
        return np.flatnonzero(np.isin(codes, self.codes))

    @staticmethod
    def overlap(amounts):
        """A row has one code of each attribute: per attribute the code in most subsets counts."""
        whole, by_code = 0.0, dict[str, dict[int, float]]()
        for subset, amount in amounts:
            if not isinstance(subset, WithCodes):
                whole += amount
                continue
            sums = by_code.setdefault(subset.attribute, {})
            for code in subset.codes:
                sums[code] = sums.get(code, 0.0) + amount
        return whole + sum(max(sums.values()) for sums in by_code.values())

"""Small queries and a database stand-in for the tests of the privacy core."""

from dataclasses import dataclass

import numpy as np

from privbench.domain import Domain
from privbench.privacy import (
    DatabaseSpec,
    KeySpec,
    LabelRelease,
    Query,
    Relation,
    Sensitivity,
    TableSpec,
)

CHAIN = DatabaseSpec(
    {
        "public.users": TableSpec("public.users", {}),
        "public.posts": TableSpec(
            "public.posts", {}, (KeySpec("owner", "public.posts", "public.users", "own"),)
        ),
        "public.tags": TableSpec("public.tags", {}),
    }
)
ROWS = DatabaseSpec({name: TableSpec(name, {}) for name in CHAIN.tables}, Relation(unit="row"))


class Toy:
    """The session sees a spec and `recode`; the toy queries carry their own rows."""

    def __init__(self, spec=CHAIN):
        self.spec = spec
        self.evaluated = 0

    def rank_by(self, keys):
        """It has no rows."""

    def recode(self, table, attribute, recoding):
        if recoding == "fail":
            raise ValueError("SECRET row")
        return Domain(3)


@dataclass(frozen=True)
class Counts(Query):
    """A vector of counts; ``secret`` makes it fail with a private value in the message."""

    values: tuple[int, ...] = (10, 20, 30)
    table: str = "public.users"
    unit: int = 1
    l1: int = 1
    l2: float = 1.0
    linf: int = 1
    secret: str = ""

    kind = "counts"

    @property
    def shape(self):
        return (len(self.values),)

    def sensitivity(self, spec):
        return Sensitivity(self.l1, self.l2, self.linf)

    def evaluate(self, data):
        data.evaluated += 1
        if self.secret:
            raise KeyError(self.secret)
        return np.array(self.values, dtype=np.int64)


@dataclass(frozen=True)
class LabelToy(Query):
    """Counts of labels."""

    counts: tuple[tuple[str, int], ...] = (("rare", 1), ("common", 1000), ("also", 1000))
    k: int = 1

    kind = "labels"
    table, unit, shape = "public.users", 1, (1,)

    def sensitivity(self, spec):
        return Sensitivity(self.k, self.k**0.5, 1, self.k)

    def evaluate(self, data):
        raise AssertionError("labels have no array form")

    def evaluate_labels(self, data):
        return np.array([500], np.int64), dict(self.counts)


def release_labels(session, query, amount, delta, label):
    """One question about labels."""
    (found,) = session.ask([LabelRelease(query, amount, label, delta)])
    return found

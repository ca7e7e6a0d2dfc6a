"""Release words of texts: which words, how often they occur, and how texts begin.

This follows all other domains. A column's words are released if noise does not hide them and if its
released labels leave out more than `_LEFT` of its texts. There are two releases: a list of words by
votes, under δ; then one vector of counts over the words of that list, over public words and over
first characters. Which columns are measured, and with which budget, depends on the plan and on
earlier releases alone (P17, P29). For names and addresses only hosts are listed.

Paths of documents are released likewise after the totals; they are added to the paths of the
config.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from privbench.arrays import Floats
from privbench.config import ColumnConfig, PathType
from privbench.encoding import Codec
from privbench.encoding.documents import released_paths
from privbench.encoding.surrogate_text import word_beginnings
from privbench.encoding.text_words import (
    FIRSTS,
    GAPS,
    FirstCharacters,
    WordShares,
    WordsNeed,
    public_words,
)
from privbench.learning.answers import measured
from privbench.learning.ranges import find_cycle
from privbench.pipeline.domain_budget import Rounds
from privbench.pipeline.domain_error import deviation, unnamed
from privbench.pipeline.prepare import FitPlan, prepare
from privbench.privacy import MARGIN, PART, LabelRelease, Measurement, Session, allocate, root_sums
from privbench.privacy.queries import PublicArray, WordPresence, WordVotes
from privbench.privacy.queries.labels import NORMS
from privbench.privacy.queries.words import PLACES, VOTES
from privbench.privacy.release import Listed

#: Parts of the budget for the lists of words of all columns, and for how often they occur.
_LISTS, _PRESENCE = 0.05, 0.05
#: The parts of δ for lists of words and of paths, where there may be any.
_DELTA, _PATHS = 1 / 3, 1 / 6
#: Words are asked for if the labels leave more than this share of a column's texts.
_LEFT = 0.2
#: A table must have this many units for each noise scale of a list with a column's amount. With
#: half, noise of one-ways of pagila's 603 addresses grows by a half, for no word; with double, the
#: words of its 1,000 films are lost.
_SCALES = 35.0
#: Most words of a unit that have a vote under pure accounting, where k of them weigh 1/k each.
_PURE = 3
#: Most words of a column.
_MOST = 1024
#: A count of a word that needed no list is no noise from this many standard deviations on; public
#: cells of one vector are many. Places of a listed word are few, and so are alphabets.
_CLEAR, _PLACE = 4.0, 2.5
#: Laplace noise passes 1.5 times as many standard deviations as often as Gaussian noise.
_HEAVY = 1.5
#: Where alphabets, digits and other signs begin among code points.
_ALPHABETS = (
    0x30, 0x3A, 0x41, 0x5B, 0x61, 0x7B, 0x7F, 0xC0, 0x180, 0x391, 0x3CA, 0x410, 0x430, 0x450, 0x5D0
)  # fmt: skip


def deltas(plan: FitPlan, delta: float) -> tuple[float, float, float]:
    """Return the δ for lists of labels, for lists of words, and for lists of paths."""
    words, paths = _DELTA if plan.words else 0.0, _PATHS if plan.documents.words else 0.0
    return (1 - words - paths) * delta, words * delta, paths * delta


class Asked(NamedTuple):
    """A column whose words are to be released."""

    table: str
    column: str
    need: WordsNeed
    labels: tuple[str, ...] = ()  # the column's labels; their texts do not count

    @property
    def label(self) -> str:
        """The column's name in the labels of events."""
        return f"{self.table}.{self.column}"

    @property
    def texts(self) -> dict[str, Any]:
        """The arguments of a query that say which texts count."""
        of = self.need
        head = {"source": self.table, "attribute": of.attribute}
        return {**head, "whole": of.whole, "without": self.labels}


# the measurements of words, used by `fit` and `plan`


def useful_columns(
    rounds: Rounds,
    codecs: Mapping[str, Mapping[str, Codec]],
    laws: Mapping[tuple[str, str], Floats],
) -> list[Asked]:
    """Return the columns whose words are worth their budget."""
    columns = []
    for item in _texts(rounds):
        labels, law = codecs[item.table][item.column].listed or (), laws.get(item[:2])
        rest = 1.0 if law is None or not labels else unnamed(law, len(labels))
        columns += [item._replace(labels=labels)] if rest > _LEFT else []
    return _clear(rounds, columns)


def word_columns(rounds: Rounds) -> list[Asked]:
    """Return all columns with words in tables whose size noise does not hide."""
    return _clear(rounds, _texts(rounds))


def _texts(rounds: Rounds) -> list[Asked]:
    return [
        Asked(item.table.key, name, reader.words)
        for item in rounds.plan.private
        for name, reader in item.readers.items()
        if reader.words is not None
    ]


def _clear(rounds: Rounds, left: list[Asked]) -> list[Asked]:
    """Those in whose tables noise hides no words, each time without the table it hides most."""
    while left:
        scales = {
            rounds.sizes[table].units / deviation(rounds.accounting, amount): table
            for (table, _, *_), amount in zip(
                left, _amounts(rounds, left, _LISTS).values(), strict=True
            )
        }
        least = min(scales)
        if least > _SCALES:
            break
        left = [item for item in left if item.table != scales[least]]
    return left


def word_lists(rounds: Rounds, columns: list[Asked], delta: float) -> dict[str, LabelRelease]:
    """Return the releases of word lists, by column; none without δ."""
    some = [item for item in columns if item.need.listed and delta > 0]
    amounts, spec = _amounts(rounds, some, _LISTS), rounds.plan.spec
    norm = NORMS[rounds.accounting]
    usual = _PURE if norm == "l1" else VOTES
    load = root_sums((spec.roots(item.table), 1.0) for item in some)
    releases = {}
    for item in some:
        most, known = item.need.most or usual, public_words() if item.need.plain else ()
        query = WordVotes(**item.texts, norm=norm, most=most, votes=True, known=known)
        what = item.need.attribute.rpartition(PART)[2]
        share = delta * MARGIN / max(load[root] for root in spec.roots(item.table))
        releases[item.label] = LabelRelease(
            query, amounts[item.label], f"{what} {item.label}", share
        )
    return releases


def word_presence(
    rounds: Rounds, columns: list[Asked], words: Mapping[str, tuple[tuple[str, ...], float]]
) -> dict[str, Measurement]:
    """Return measurements of how often words occur, by column.

    `words` gives the words of each column and the number of votes that a unit has for them.
    """
    amounts, measurements = _amounts(rounds, columns, _PRESENCE), {}
    norm = NORMS[rounds.accounting]
    pure = norm == "l1"
    for item in columns:
        listed, votes = words.get(item.label, ((), 0.0))
        # A text counts itself, its beginning, its words, and these at the first places.
        many = math.ceil(min(votes if pure else 1.25 * votes**2, 2.0 * VOTES))
        cells = 2 + many + min(many, PLACES)
        query = WordPresence(
            **item.texts,
            norm=norm,
            clip=cells if pure else math.isqrt(cells),
            words=(*listed, *(public_words() if item.need.plain else ())),
            firsts=PublicArray(FIRSTS),
        )
        label = f"how often words {item.label}"
        measurements[item.label] = Measurement(query, amounts[item.label], label)
    return measurements


def _amounts(rounds: Rounds, columns: list[Asked], share: float) -> dict[str, float]:
    if not columns:
        return {}
    roots = {item.label: (1.0, rounds.plan.spec.roots(item.table)) for item in columns}
    return allocate(roots, share * rounds.whole * MARGIN)


def release_words(
    session: Session, rounds: Rounds, columns: list[Asked], delta: float
) -> dict[tuple[str, str], tuple[WordShares, FirstCharacters]]:
    """Release words and first characters, and return them by table and column."""
    lists, words = word_lists(rounds, columns, delta), {}
    for label, listed in zip(lists, session.ask([*lists.values()]), strict=True):
        assert isinstance(listed, Listed)
        query = lists[label].query
        size = rounds.sizes[query.table].units * query.unit
        order = np.argsort(-np.array(listed.counts, np.float64), kind="stable")[:_MOST]
        frequent_words = tuple(sorted(listed.labels[place] for place in order))
        words[label] = frequent_words, min(sum(listed.counts) / size, float(VOTES))
    questions = word_presence(rounds, columns, words)
    result = {}
    for item, answer in zip(columns, measured(session, [*questions.values()]), strict=True):
        assert isinstance(answer.query, WordPresence)
        result[item.table, item.column] = laws_of(answer.query, *answer)
    return result


@cache
def _usual_beginnings() -> Floats:
    """How usual every character of `FIRSTS` is, by public words, as the first one of a text."""
    begun = bytes(word_beginnings()).decode() + "123456789" * 9
    return np.array([2.0 + begun.count(chr(point).lower()) for point in FIRSTS])


def _letters(noisy: Floats, clear: float, texts: float) -> Floats:
    """Shares of first characters, 0 for noise, which may hide each letter, but not an alphabet.

    Of alphabets that noise may hide the most frequent one counts. Laws that it hides are those of
    public words, and of numbers, which seldom begin with 0.
    """
    counts = np.where(noisy > _CLEAR * clear, noisy, 0.0)
    usual = _usual_beginnings()
    parts = np.split(np.arange(len(FIRSTS)), np.searchsorted(FIRSTS, _ALPHABETS))
    signal = [float(noisy[part].sum()) / clear / len(part) ** 0.5 for part in parts]
    for part, sure in zip(parts, signal, strict=True):
        if sure >= min(max(*signal, _PLACE), _CLEAR):
            law = find_cycle(noisy[part], clear, usual[part])
            counts[part] = noisy[part].sum() * np.array(law)
    counts[np.isin(FIRSTS, [*GAPS])] = 0.0
    hidden = texts - counts.sum() < _PLACE * clear * np.count_nonzero(counts) ** 0.5
    return counts / (min(texts, counts.sum()) if hidden else texts)


def laws_of(query: WordPresence, noisy: Floats, sd: float) -> tuple[WordShares, FirstCharacters]:
    """Return the shares of words, of their positions and of first characters (post-processing).

    Public words, positions and first characters count only where noise alone is unlikely.
    """
    texts = max(float(noisy[0]), sd, 1e-9)
    if texts < _SCALES / 4 * sd:
        return (), ()
    count, clear = len(FIRSTS), sd * (_HEAVY if query.norm == "l1" else 1.0)
    letters = _letters(noisy[1 : 1 + count], clear, texts)
    table = noisy[1 + count :].reshape(1 + PLACES, len(query.words))
    pieces, public = [], {*public_words()}
    for place, word in enumerate(query.words):
        word_counts = table[0, place]
        if word_counts <= (_CLEAR * clear if word in public else 0.0):
            continue
        share = min(float(word_counts / texts), 1.0)
        at = [float(x / texts) if x > _PLACE * clear else 0.0 for x in table[1:, place]]
        most = share / max(sum(at), share)
        pieces.append((word, (share, *(min(part * most, 1.0) for part in at))))
    firsts = zip(FIRSTS, letters.tolist(), strict=True)
    return tuple(pieces), tuple((point, share) for point, share in firsts if share > 0)


def path_lists(rounds: Rounds, delta: float) -> dict[str, LabelRelease]:
    """Return the releases of path lists; ``delta`` is that of all threshold releases."""
    *_, part = deltas(rounds.plan, delta)
    rounds = replace(rounds, plan=rounds.plan.documents).sized({})
    return word_lists(rounds, word_columns(rounds), part)


def release_paths(session: Session, plan: FitPlan, totals: Mapping[str, float]) -> FitPlan:
    """Release paths of documents, and return the plan that models them."""
    rounds = Rounds(plan, session.accounting, session.amount_total, 0.0, totals)
    lists, paths = path_lists(rounds, session.delta_total), {}
    for item, listed in zip(lists.values(), session.ask([*lists.values()]), strict=True):
        assert isinstance(listed, Listed) and isinstance(item.query, WordVotes)  # noqa: PT018
        table, name = item.query.table, item.query.attribute.partition(PART)[0]
        column_config = plan.tables[table].section.columns.get(name, ColumnConfig())
        votes = dict(zip(listed.labels, listed.counts, strict=True))
        paths[table, name] = released_paths(votes, column_config.paths)
    return with_paths(plan, paths)


def with_paths(
    plan: FitPlan, paths_of_columns: Mapping[tuple[str, str], Mapping[str, PathType]]
) -> FitPlan:
    """Return the plan in which the named columns have these paths."""
    tables = {key: item.section for key, item in plan.tables.items()}
    for (table, name), paths in paths_of_columns.items():
        section = tables[table]
        column_config = section.columns.get(name, ColumnConfig()).model_copy(
            update={"paths": {**paths}}
        )
        tables[table] = section.model_copy(
            update={"columns": {**section.columns, name: column_config}}
        )
    changed = plan.config.model_copy(update={"tables": tables})
    return prepare(plan.schema, changed) if paths_of_columns else plan

"""The option ``fit --since``: start from an earlier release, whose file is not trusted.

The fit takes over the domains of the earlier release, and its models of the tables that a noisy
test finds unchanged. The file is public. It is checked before any budget is spent, so that every
measurement that follows from it has a sensitivity of its own, whatever the file holds
(``docs/adr/incremental-releases.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa

from privbench.config import ColumnConfig, Config, PrivacyConfig
from privbench.encoding import Codec, ColumnReader, PartNeed
from privbench.encoding.ordered import OrderedCodec
from privbench.encoding.text import TextReader
from privbench.errors import ConfigError, ModelError
from privbench.learning.graphical.model import TableLaw
from privbench.pipeline.decode import sound
from privbench.pipeline.domain_budget import totals_share
from privbench.pipeline.domain_words import with_paths
from privbench.pipeline.domains import recode
from privbench.pipeline.lookups import kinds_of
from privbench.pipeline.model import Model
from privbench.pipeline.prepare import FitPlan, TablePlan, prepare
from privbench.privacy import Event, Guarantee, Session
from privbench.privacy.accountant import Level, Tally
from privbench.privacy.budget import round_down, round_up
from privbench.privacy.data import Cells, Labels
from privbench.privacy.recoding import EdgesRecoding, LabelsRecoding
from privbench.privacy.release import Release
from privbench.rules.facts import SHOWN
from privbench.schema import Check
from privbench.synthesizers import Synthesizer
from privbench.synthesizers.graphical import GraphicalSynthesizer
from privbench.synthesizers.model import DatabaseModel

_REMEDY = "Fit without --since."
#: Most events of an earlier release. With some 500 bytes each they take half of what a header may
#: hold.
_MOST_EVENTS = 30_000


@dataclass(frozen=True)
class Since:
    """An earlier release that is compatible with the plan of a fit."""

    learner: GraphicalSynthesizer  # the synthesizer of both
    model: Model
    codecs: dict[str, dict[str, Codec]]  # its codecs, per private table and modelled column
    laws: Mapping[str, TableLaw]  # its laws of the private tables
    plan: FitPlan  # the fit's plan, with the release's paths

    @classmethod
    def read(cls, path: str | Path, plan: FitPlan, learner: Synthesizer[Any]) -> Since:
        """Read a model that a fit may start from.

        A ModelError is raised if the model is damaged, promises less than its events cost, or has
        another schema, synthesizer or privacy unit than the fit.
        """
        if not isinstance(learner, GraphicalSynthesizer):
            raise ConfigError(f"the synthesizer {learner.name!r} has no --since.", remedy=_REMEDY)
        model = Model.load(path)
        if len(model.events) > _MOST_EVENTS:
            _refuse("has so many events that the header of the next one would be too long.")
        if model.synthesizer != learner.name:
            _refuse(f"was made by the synthesizer {model.synthesizer!r}, not {learner.name!r}.")
        with sound():
            then = prepare(model.schema, Config.model_validate(model.config))
            said = {
                (key, name): said.paths | now.section.columns.get(name, ColumnConfig()).paths
                for key, now in plan.documents.tables.items()
                if key in then.tables
                for name, said in then.tables[key].section.columns.items()
                if name in now.readers
            }
            plan = with_paths(plan, said)
            _require_same_tables(plan, then)
            _require_same_promise(plan, model)
            if {*model.public} != {item.table.key for item in plan.public}:
                _refuse("has other public tables.")
            codecs: dict[str, dict[str, Codec]] = {}
            for item in plan.private:
                key, made = item.table.key, model.tables[item.table.key].codecs
                codecs[key] = {
                    name: _taken(key, reader, made[name]) for name, reader in item.readers.items()
                }
                _require_bases(key, codecs[key])
            fitted = learner.load(model.state, model.arrays)
            assert isinstance(fitted, DatabaseModel)
            for name, law in fitted.laws.items():
                if name not in plan.spec.tables or law.keys != plan.spec.tables[name].keys:
                    _refuse("has other keys.", name)
        return cls(learner, model, codecs, fitted.laws, plan)

    def accounting(self, privacy: PrivacyConfig) -> PrivacyConfig:
        """Return the fit's privacy config with the release's accounting; refuse another one."""
        accounting = self.model.promise.accounting
        if privacy.accounting not in ("auto", accounting):
            _refuse(f"has the accounting {accounting}, not {privacy.accounting}.")
        return privacy.model_copy(update={"accounting": accounting})

    def domains(
        self, session: Session, plan: FitPlan, totals: dict[str, float]
    ) -> tuple[dict[str, dict[str, Codec]], dict[str, float], float, Mapping[str, Sequence[Check]]]:
        """Return what `release_domains` does, of the earlier release; nothing is spent for it."""
        recode(session, plan, self.codecs)
        tested_checks = {t.key: [c for c in t.checks if c.name == SHOWN] for t in self.model.schema}
        left = session.amount_total * (1 - totals_share(plan))
        return self.codecs, totals, left, tested_checks

    def refit(
        self,
        session: Session,
        totals: Mapping[str, float],
        amount: float,
        plan: FitPlan,
        public: Mapping[str, pa.Table],
    ) -> DatabaseModel:
        """Keep the earlier model of each table that a noisy test finds unchanged; learn the others.

        ``public`` has the public tables' rows now. A table that refers to one whose rows differ is
        learned without a test, since its codes would refer to other rows.
        """
        changed = {key for key, rows in public.items() if not rows.equals(self.model.public[key])}
        keys = {name: table.keys for name, table in plan.spec.tables.items()}
        laws = {
            name: law
            for name, law in self.laws.items()
            if not any(key.parent in changed for key in keys.get(name, ()))
        }
        rows = {name: kinds_of(table) for name, table in public.items()}
        return self.learner.refit(session, totals, amount, rows, laws)

    def anew(self, fitted: DatabaseModel) -> list[str]:
        """Return the tables whose models were learned anew in this fit."""
        return [
            name
            for name, law in fitted.laws.items()
            if name not in self.laws or law.model is not self.laws[name].model
        ]

    def composed(self, release: Release) -> tuple[tuple[Event, ...], Guarantee, Level]:
        """Return all events of both releases, what they promise together, and that promise's level.

        Limits that were fixed before either release add up, whatever the two spent: under zCDP the
        ρ of the earlier promise and that of the new one's level or cap, converted at that part
        of the earlier conversion's δ which the level has of its own release's; under pure
        accounting ε. Events whose answers were lost are included.
        """
        every = enumerate([*self.model.events, *release.events])
        both = tuple(replace(event, id=place) for place, event in every)
        earlier, level = self.model.promise, release.level()
        delta = round_up(Fraction(earlier.delta) + release.spent().delta())
        if earlier.accounting == "pure":
            epsilon = round_up(Fraction(earlier.epsilon) + release.spent().amount())
            return both, Guarantee(epsilon, delta), level
        before = max(Fraction(earlier.level.rho), Tally(self.model.events, "zcdp").amount())
        # The cap's part of δ is so much larger that a level below it may promise less: the release
        # then counts as one that reached the cap, as every one with the same two levels does.
        whole = release.terms.level(max(Fraction(release.terms.cap), release.spent().amount()))
        levels = [
            Level(
                round_up(before + Fraction(item.rho)),
                round_down(
                    Fraction(earlier.level.delta)
                    * Fraction(item.delta)
                    / Fraction(release.terms.delta_conversion)
                ),
            )
            for item in (level, whole)
        ]
        level = min(levels, key=lambda item: item.epsilon)
        return both, Guarantee(level.epsilon, delta), level


def _require_same_tables(plan: FitPlan, then: FitPlan) -> None:
    """Refuse a release of other tables, columns, keys, roles or public knowledge."""
    for key in sorted({*plan.tables} ^ {*then.tables}):
        _refuse("does not have the same tables.", key)
    for key, now in plan.tables.items():
        columns_now, columns_then = _columns(now), _columns(then.tables[key])
        for name in sorted({*columns_now} | {*columns_then}):
            if columns_now.get(name) != columns_then.get(name):
                _refuse("has this column otherwise, or does not have it.", key, name)
        if _rules(now) != _rules(then.tables[key]):
            _refuse("has another role, owner, key, bound, UNIQUE set or CHECK.", key)


def _columns(item: TablePlan) -> dict[str, tuple[Any, ...]]:
    """The facts of every column that decide how it is read and made."""
    return {
        column.name: (
            column.type,
            column.not_null,
            column.generated,
            item.making.get(column.name),
            item.section.columns.get(column.name, ColumnConfig()),
        )
        for column in item.table.columns
    }


def _rules(item: TablePlan) -> tuple[Any, ...]:
    """The facts of a table that decide who owns its rows, and which may exist."""
    table, specs = item.table, [replace(spec, weight=1.0) for spec in item.specs()]
    keys = [
        (key.name, key.columns, key.ref_columns, key.declared, key.none, key.when, key.natural)
        for key in (*table.foreign_keys, *table.arrays)
    ]
    uniques = {unique.columns for unique in table.unique_sets}
    checks = {check.expression for check in table.checks if check.name != SHOWN}
    return item.public, specs, keys, uniques, checks


def _require_same_promise(plan: FitPlan, model: Model) -> None:
    """Refuse a release that is NOT PRIVATE, has another unit, or misstates its events' cost."""
    promise, privacy, spec = model.promise, plan.config.privacy, plan.spec
    if not promise.private and privacy.seed is None:
        _refuse("is NOT PRIVATE: its noise was seeded.")
    for name in ("neighbours", "unit"):
        if getattr(promise, name) != getattr(privacy, name):
            _refuse(f"has {name} = {getattr(promise, name)!r}.")
    roots = {root for name in spec.tables for root in spec.roots(name)}
    if {*promise.roots} != roots:
        _refuse("has other root tables.")
    try:
        loss = promise.require_sound(model.events)
    except ModelError as error:
        _refuse(f"is not sound: {error.message}")
    # If pure events cost less than is promised, some are missing and would go unpaid. The slack
    # allows for the rounding of δ. Under zCDP the promise is a limit, which is paid in full.
    if promise.accounting == "pure" and loss.epsilon < promise.epsilon * (1 - 1e-6):
        _refuse("states more than its events cost.")


def _taken(table: str, reader: ColumnReader, codec: Codec) -> Codec:
    """Return the codec; a ModelError if its cells are not those that the reader makes."""
    aside = {need.attribute for need in reader.needs if isinstance(need, PartNeed)}
    aside |= {reader.words.attribute} if reader.words is not None else set()
    if isinstance(reader, TextReader) and reader.begun and reader.shaped:
        # Where no beginning was released, texts have their length and shape alone.
        aside |= {reader.name} - {*codec.domains}
    # A reader shows the kinds of its attributes even when it reads no rows.
    read = {
        name: attribute_read
        for name, attribute_read in reader.collect([]).items()
        if name not in aside
    }
    settled = {
        name: attribute_read.domain
        for name, attribute_read in read.items()
        if isinstance(attribute_read, Cells)
    }
    recoded = {name: recoding.domain for name, recoding in codec.recodings.items()}
    fits = {**settled, **recoded} == codec.domains and {*read} == {*codec.domains}
    for name in {*read} - {*settled}:
        kind = LabelsRecoding if isinstance(read[name], Labels) else EdgesRecoding
        fits &= isinstance(codec.recodings.get(name), kind)
    fits &= not {*recoded} & {*settled}
    if not fits:
        _refuse("has other cells.", table, reader.name)
    return codec


def _require_bases(table: str, codecs: Mapping[str, Codec]) -> None:
    """Refuse distances from other columns than those whose points are cells already."""
    ordered = {n for n, codec in codecs.items() if isinstance(codec, OrderedCodec)}
    points = {n for n in ordered if codecs[n].recodings and not codecs[n].since} | {""}
    for name, codec in codecs.items():
        bases = {codec.since, *(recoding.since for recoding in codec.recodings.values())}
        if not bases <= points & {"", codec.since}:
            _refuse("has distances from no column of points.", table, name)


def _refuse(what: str, table: str | None = None, column: str | None = None) -> NoReturn:
    raise ModelError(f"the model of --since {what}", table=table, column=column, remedy=_REMEDY)

"""The certificate: what a model promises, in plain words, and whether its events add up to it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path

from privbench.errors import ModelError, PrivacyRefusal
from privbench.pipeline import Model
from privbench.privacy import Event, loss_of
from privbench.privacy.budget import round_down
from privbench.publish.facts import Certificate, Release

#: Rounding of a sum of floats on its way through JSON; a thousand times more would hide nothing
#: that a reader could tell apart.
_ROUNDING = 1e-9
_MECHANISMS = {
    "discrete_laplace": "discrete Laplace",
    "discrete_gaussian": "discrete Gaussian",
    "noisy_max": "report noisy max (exponential noise)",
    "noisy_max_gumbel": "report noisy max (Gumbel noise)",
    "laplace_threshold": "Laplace threshold",
    "gaussian_threshold": "Gaussian threshold",
}


def certificate_of(model: Model, path: Path, server: str) -> Certificate:
    """The certificate of a model.

    Args:
        model: The model.
        path: Its file.
        server: The PostgreSQL that the clone was made on.

    Raises:
        PrivacyRefusal: The noise was seeded.
    """
    if not model.promise.private:
        raise PrivacyRefusal(
            "the noise of this model was seeded: it is NOT PRIVATE and must not be published.",
            remedy="Fit it again without --seed.",
        )
    own = {
        key: model.schema.table(key).foreign_keys for key in model.tables if model.tables[key]["own"]
    }
    keys = {
        name: next(key for key in listed if key.name == model.tables[name]["own"])
        for name, listed in own.items()
    }
    return Certificate(
        promise=Release(**{**vars(model.promise), "roots": list(model.promise.roots)}),
        owners={
            name: ", ".join(keys[name].columns) if name in keys else "" for name in model.tables
        },
        owned_by={name: str(key.ref_table) for name, key in keys.items()},
        public=sorted(model.public),
        config=model.config,
        synthesizer=model.synthesizer,
        model=hashlib.sha256(path.read_bytes()).hexdigest(),
        versions={
            "privbench": version("privbench"),
            "opendp": version("opendp"),
            "postgresql": server,
        },
        events=[Event.from_json(item) for item in model.events],
    )


def require_sound(certificate: Certificate) -> None:
    """Price every event again, and refuse a certificate that states less than they add up to.

    Each event's own claim is checked against OpenDP's privacy map of its mechanism.

    Raises:
        ModelError: It states less, or its parts do not fit each other.
    """
    promise, events = certificate.promise, certificate.events
    if [event.id for event in events] != list(range(len(events))):
        raise ModelError("the events are not numbered from 0.")
    for event in events:
        if not event.private or event.neighbours != promise.neighbours or not event.roots:
            raise ModelError(f"event {event.id} is not one of this release.")
        if not set(event.roots) <= set(promise.roots):
            raise ModelError(f"event {event.id} is charged to a table that is no root.")
    if not set(certificate.owned_by) <= set(certificate.owners):
        raise ModelError("owned tables are not among the private ones.")
    if set(certificate.public) & set(certificate.owners):
        raise ModelError("a table is both private and public.")
    try:
        rest = Fraction(promise.delta) - _thresholds(events)
        found = loss_of(events, promise.accounting, max(round_down(rest), 0.0))
    except PrivacyRefusal as error:
        raise ModelError(str(error)) from None
    except Exception as error:
        # What a stranger states may be no number that a mechanism takes.
        raise ModelError(f"the events have no price ({type(error).__name__}).") from None
    if rest < 0 or found.epsilon > promise.epsilon * (1 + _ROUNDING):
        raise ModelError(
            f"the events cost ε = {found.epsilon:g}, and ε = {promise.epsilon:g} is stated."
        )


def _thresholds(events: Iterable[Event]) -> Fraction:
    """δ of the lists of labels: the largest sum over root tables."""
    sums: dict[str, Fraction] = {}
    for event in events:
        for root in event.roots:
            sums[root] = sums.get(root, Fraction(0)) + Fraction(event.delta)
    return max(sums.values(), default=Fraction(0))


def unit_lines(certificate: Certificate) -> list[str]:
    """The privacy unit, a line for every table whose rows begin one."""
    if certificate.promise.unit == "row":
        return [f"one row of {table}" for table in certificate.owners]
    below: dict[str, list[str]] = {}
    for table, owner in certificate.owned_by.items():
        below.setdefault(owner, []).append(table)
    lines = []
    for root in certificate.promise.roots:
        owned, waiting = [], [root]
        while waiting:
            for table in below.get(waiting.pop(), []):
                if table not in owned and table != root:
                    owned.append(table)
                    waiting.append(table)
        line = f"one row of {root}"
        if certificate.owners.get(root):
            line += f" that has no owner (no {certificate.owners[root]})"
        lines.append(line + (f", with all rows that it owns in {', '.join(owned)}" if owned else ""))
    return lines


def paragraphs(certificate: Certificate) -> dict[str, str]:
    """What the numbers mean, in plain words, by topic."""
    promise = certificate.promise
    change = (
        "one unit more or less"
        if promise.neighbours == "add-remove"
        else "one unit replaced by another of the same root table"
    )
    means = (
        f"Two databases are neighbours if they differ by {change}. Any outcome of the release is "
        f"at most e^{promise.epsilon:.4g} times as likely with one as with the other"
    )
    means += f", up to a failure probability of {promise.delta:.3g}." if promise.delta else "."
    how = {
        "pure": "Losses are pure ε and are added up.",
        "zcdp": "Losses are ρ of zero-concentrated differential privacy; they are added up, and "
        "converted once to (ε, δ).",
    }[promise.accounting]
    return {
        "means": means,
        "accounting": f"{how} An event is charged to every root table whose units can change it, "
        "and what is stated is the largest sum: a unit lies in one root table.",
        "roles": {
            "declared": "Which table owns which was declared by the data's owner.",
            "proposed": "Which table owns which was proposed by the tool from the catalog and "
            "accepted by the data's owner.",
        }[promise.roles],
    }


def rows_of_events(certificate: Certificate) -> list[tuple[str, ...]]:
    """Every event as cells: number, what for, mechanism, sensitivity, scale, loss, δ."""
    return [
        (
            str(event.id),
            event.label.replace("\x1f", " · ").replace("|", "\\|").replace("\n", " "),
            _MECHANISMS[event.mechanism],
            f"{event.sensitivity.l2 if 'gauss' in event.mechanism else event.sensitivity.l1:.6g}"
            f" / {event.unit}",
            f"{event.scale:.6g}",
            f"{'ε' if event.loss == 'epsilon' else 'ρ'} = {event.amount:.6g}",
            f"{event.delta:.3g}" if event.delta else "",
        )
        for event in certificate.events
    ]

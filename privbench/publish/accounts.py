"""The certificate: what a model promises, in plain words, and whether its events add up to it."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

from privbench.errors import ModelError, PrivacyRefusal
from privbench.pipeline import Model
from privbench.privacy import loss_within
from privbench.publish.facts import Certificate, Release

#: Rounding of sums of floats: the zCDP conversion minimises over a grid, to about 10⁻¹². Twice as
#: much would let through what no reader can tell apart either.
_ROUNDING = 1e-9


def certificate_of(model: Model, path: Path, server: str) -> Certificate:
    """The certificate of a model, of its file, and of the PostgreSQL that the clone was made on.

    Raises:
        PrivacyRefusal: The noise was seeded.
    """
    if not model.promise.private:
        raise PrivacyRefusal(
            "the noise of this model was seeded: it is NOT PRIVATE and must not be published.",
            remedy="Fit it again without --seed.",
        )
    owners, owned_by = dict.fromkeys(model.tables, ""), {}
    for name, made in model.tables.items():
        for key in model.schema.table(name).foreign_keys:
            if key.name == made.own:
                owners[name], owned_by[name] = ", ".join(key.columns), str(key.ref_table)
    return Certificate(
        promise=Release(**{**vars(model.promise), "roots": list(model.promise.roots)}),
        owners=owners,
        owned_by=owned_by,
        public=sorted(model.public),
        config=model.config,
        synthesizer=model.synthesizer,
        model=hashlib.sha256(path.read_bytes()).hexdigest(),
        versions={
            "privbench": version("privbench"), "opendp": version("opendp"), "postgresql": server,
        },
        events=list(model.events),
    )  # fmt: skip


def require_sound(certificate: Certificate) -> None:
    """Price every event again, and refuse a certificate that states less than they add up to.

    Each event's own claim is checked against OpenDP's privacy map of its mechanism.

    Raises:
        ModelError: It states less, or its parts do not fit each other.
    """
    promise, events = certificate.promise, certificate.events
    for place, event in enumerate(events):
        ours = event.id == place and event.private and event.neighbours == promise.neighbours
        if not ours or not event.roots or not {*event.roots} <= {*promise.roots}:
            raise ModelError(f"event {place} is not one of this release.")
    private = {*certificate.owners}
    if not {*certificate.owned_by} <= private or not {*promise.roots} <= private:
        raise ModelError("the units are not made of the private tables.")
    try:
        found = loss_within(events, promise.accounting, promise.delta)
    except PrivacyRefusal as error:
        raise ModelError(str(error)) from None
    except Exception as error:
        # What a stranger states may be no number that a mechanism takes.
        raise ModelError(f"the events have no price ({type(error).__name__}).") from None
    if found.delta > promise.delta or found.epsilon > promise.epsilon * (1 + _ROUNDING):
        raise ModelError(
            f"the events cost ε = {found.epsilon:g}, δ = {found.delta:g}, and less is stated."
        )


def unit_lines(certificate: Certificate) -> list[str]:
    """The privacy unit, a line for every table whose rows begin one."""
    if certificate.promise.unit == "row":
        return [f"one row of {table}" for table in certificate.owners]
    lines = []
    for root in certificate.promise.roots:
        owned = [root]
        for above in owned:
            below = (table for table, owner in certificate.owned_by.items() if owner == above)
            owned += [table for table in below if table not in owned]
        line = f"one row of {root}"
        if certificate.owners.get(root):
            line += f" without an owner ({certificate.owners[root]} is NULL)"
        rest = ", ".join(owned[1:])
        lines.append(f"{line}, with all the rows that it owns in {rest}" if rest else line)
    return lines

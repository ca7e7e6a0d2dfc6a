"""The certificate of a bundle: what its model promises, and whether its events add up to that."""

import hashlib
from importlib.metadata import version
from pathlib import Path

from privbench.errors import ModelError, PrivacyRefusal
from privbench.pipeline import Model
from privbench.publish.records import Certificate


def certificate_of(model: Model, path: Path, server: str) -> Certificate:
    """Return a model's certificate, with its file's hash and the clone's PostgreSQL version.

    It is refused to a model whose noise was seeded, or that promises less than its events cost.
    """
    if not model.promise.private:
        raise PrivacyRefusal(
            "the noise of this model was seeded: it is NOT PRIVATE and must not be published.",
            remedy="Fit it again without --seed.",
        )
    model.promise.require_sound(model.events)
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    owners, owned_by, typed = dict.fromkeys(model.tables, ""), {}, []
    for name, private in model.tables.items():
        for key in model.schema.table(name).foreign_keys:
            if key.name == private.own:
                owners[name], owned_by[name] = ", ".join(key.columns), str(key.ref_table)
                typed += [name] if key.when else []
    for name in typed:
        # A key by types owns through the root above its targets; only a row of it is an owner.
        for _ in model.tables:
            owned_by[name] = owned_by.get(owned_by[name], owned_by[name])
    return Certificate(
        promise=model.promise,
        owners=owners,
        owned_by=owned_by,
        public=sorted(model.public),
        config=model.config,
        synthesizer=model.synthesizer,
        model=digest,
        versions={
            "privbench": version("privbench"), "opendp": version("opendp"), "postgresql": server,
        },
        events=list(model.events),
    )  # fmt: skip


def require_sound(certificate: Certificate) -> None:
    """Recompute the loss of every event; refuse a certificate that promises less than the total.

    A certificate whose parts contradict each other is refused, too.
    """
    promise = certificate.promise
    if not promise.private:
        raise ModelError("the certificate says NOT PRIVATE.")
    private = {*certificate.owners}
    if not {*certificate.owned_by} <= private or not {*promise.roots} <= private:
        raise ModelError("the units are not made of the private tables.")
    promise.require_sound(certificate.events)


def unit_lines(certificate: Certificate) -> list[str]:
    """Return the privacy unit in words, one line for every root table."""
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
            line += f" without an owner ({certificate.owners[root]} leads to no row)"
        rest = ", ".join(owned[1:])
        lines.append(f"{line}, with all the rows that it owns in {rest}" if rest else line)
    return lines

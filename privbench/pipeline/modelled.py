"""A released model as comparisons read it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from privbench.metrics.modeltree import Modelled, modelled_tables
from privbench.pipeline.decode import codecs_of
from privbench.pipeline.model import Model
from privbench.synthesizers import get as find_synthesizer


def modelled(path: str | Path) -> Modelled:
    """Circuits, codecs and promise of a model file.

    Args:
        path: The model file.

    Raises:
        ModelError: Not a model, or damaged.
    """
    model = Model.load(path)
    fitted = find_synthesizer(model.synthesizer).load(model.state, model.arrays)
    codecs = {key: codecs_of(model, key) for key in model.tables}
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    promise = model.promise.sentence()
    return Modelled(digest, model.synthesizer, promise, modelled_tables(fitted, codecs))

"""Synthesizers, found by name through the entry points ``privbench.synthesizers``.

Its concepts are `Synthesizer`, `PlanInput` (what is known before a fit), `TableFit` (the fit of one
table's attributes) and `FittedModel`.
"""

from typing import Any

from privbench import plugins
from privbench.errors import ConfigError
from privbench.synthesizers.base import (
    FittedModel,
    Options,
    PlanInput,
    Synthesizer,
    roots_of,
)

__all__ = [
    "FittedModel",
    "Options",
    "PlanInput",
    "Synthesizer",
    "get",
    "names",
    "roots_of",
]


def names() -> tuple[str, ...]:
    """Return the names of the installed synthesizers, sorted."""
    return plugins.names(plugins.SYNTHESIZERS)


def get(name: str) -> type[Synthesizer[Any]]:
    """Return the synthesizer with this name; raise a ConfigError if none is installed."""
    synthesizer = plugins.load(plugins.SYNTHESIZERS, name)
    if synthesizer is None:
        raise ConfigError(
            f"no synthesizer {name!r} is installed.",
            remedy=f"Installed: {', '.join(names())}. Those of papers: pip install privbench-lab.",
        )
    if isinstance(synthesizer, type) and issubclass(synthesizer, Synthesizer):
        return synthesizer
    raise ConfigError(f"the entry point {name!r} is no synthesizer.")

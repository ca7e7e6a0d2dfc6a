"""Synthesizers, found by name through the entry points ``privbench.synthesizers``."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from privbench.errors import ConfigError
from privbench.synthesizers.base import (
    FittedModel,
    Options,
    PlanInput,
    PlannedEvent,
    Synthesizer,
    roots_of,
)

__all__ = [
    "FittedModel",
    "Options",
    "PlanInput",
    "PlannedEvent",
    "Synthesizer",
    "get",
    "names",
    "roots_of",
]


def names() -> tuple[str, ...]:
    """Names of the installed synthesizers, sorted."""
    return tuple(sorted({point.name for point in entry_points(group=__name__)}))


def get(name: str) -> type[Synthesizer[Any]]:
    """The synthesizer of that name; a ConfigError if none is installed."""
    for point in entry_points(group=__name__, name=name):
        found = point.load()
        if isinstance(found, type) and issubclass(found, Synthesizer):
            return found
        raise ConfigError(f"the entry point {name!r} is no synthesizer.")
    raise ConfigError(f"no synthesizer {name!r}.", remedy=f"Known: {', '.join(names())}.")

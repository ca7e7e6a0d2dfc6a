"""Find what other packages add to privbench by entry points; see ``docs/plugins.md``.

A name is looked up among the entry points of installed distributions, and nothing else: a model or
a bundle of a stranger that names a synthesizer can only choose among what is installed.
"""

from importlib.metadata import EntryPoint, entry_points

from privbench.errors import ConfigError

#: The groups of entry points.
SYNTHESIZERS = "privbench.synthesizers"
COMMANDS = "privbench.commands"
SECTIONS = "privbench.report_sections"
FORMATS = "privbench.workload_formats"


def names(group: str) -> tuple[str, ...]:
    """Return the sorted names in a group of entry points; nothing is imported."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def load(group: str, name: str) -> object:
    """Import and return the object that a package registers by that name; None if none does.

    Raises:
        ConfigError: Two packages claim the name, or its package cannot be imported.
    """
    points = tuple(entry_points(group=group, name=name))
    if not points:
        return None
    if len({point.value for point in points}) > 1:
        packages = " and ".join(sorted(map(_package, points)))
        raise ConfigError(f"{packages} both name {name!r}.", remedy="Remove one of them.")
    try:
        loaded: object = points[0].load()
    except (Exception, SystemExit) as error:
        # A module of others may end in any way.
        raise ConfigError(
            f"{name!r} cannot be loaded: {type(error).__name__}.",
            remedy=f"Install {_package(points[0])} again, or remove it.",
        ) from error
    return loaded


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else point.value

"""What a clone must keep, asked of PostgreSQL itself, without the tool's own code."""

import re

import faithful
from market import ask, one


def pg_dump(dsn: str, *options: str) -> str:
    """What pg_dump says, without comments and its random tokens."""
    lines = faithful.pg_dump(dsn, *options).splitlines()
    return "\n".join(line for line in lines if line and not re.match(r"--|\\", line))


def schema_of(dsn: str) -> str:
    """The schema as pg_dump writes it."""
    return pg_dump(dsn, "--schema-only")


def unkept(dsn: str) -> list[tuple[object, ...]]:
    """Constraints and indexes that PostgreSQL does not vouch for."""
    return ask(
        dsn,
        "SELECT conname FROM pg_constraint WHERE NOT convalidated UNION ALL"
        " SELECT indexrelid::regclass::text FROM pg_index WHERE NOT (indisvalid AND indisready)",
    )


def whole(dsn: str) -> None:
    """Everything at once."""
    assert unkept(dsn) == []
    faithful.require_sound(dsn)
    held = "SELECT count(*) FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
    assert one(dsn, f"{held} AND contype = 'f'") == 6
    assert one(dsn, f"{held} AND contype IN ('p', 'u', 'c') AND conrelid > 0") >= 12
    assert ask(dsn, "SELECT count(*) FROM spending")

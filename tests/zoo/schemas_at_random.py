"""Random schemas with rows that keep their rules, as SQL."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from psycopg import sql
from sql_files import cases, sql_of

PREAMBLE = sql_of(__file__, "preamble")


def _types(file: str) -> dict[str, tuple[str, list[str]]]:
    texts = {kind: text.split("\n") for kind, text in cases(__file__, file)}
    return {kind: (value, checks) for kind, (value, *checks) in texts.items()}


#: Types that tell numbers apart: a value for number ``i``, and CHECKs that these values keep.
KEYS = _types("key_types")
#: Further types, for columns that are no keys.
OTHERS = _types("other_types")
TYPES = {**KEYS, **OTHERS}
NAMES = ("plain", "Order", "select", 'odd "x"', "dot.ted", "новое", "with space", "percent%s")


@dataclass
class Field:
    """A column in the making."""

    name: str
    type: str
    template: str
    not_null: bool = False
    value: str = ""
    rules: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.value = self.value or self.template.format(i="i")


@dataclass
class Made:
    """A table in the making."""

    name: str
    rows: int
    key: list[str]
    fields: list[Field]
    rules: list[str] = field(default_factory=list)


def ident(name: str) -> str:
    return sql.Identifier(name).as_string(None)


@st.composite
def _field(draw, name: str) -> Field:
    type_ = draw(st.sampled_from(sorted(TYPES)))
    value, checks = TYPES[type_]
    made = Field(name, type_, value, draw(st.booleans()))
    if checks and draw(st.booleans()):
        made.rules.append(f"CHECK ({draw(st.sampled_from(checks)).format(c=ident(name))})")
    if type_ in KEYS and draw(st.integers(0, 3)) == 0:
        made.rules.append("UNIQUE" + draw(st.sampled_from(["", " DEFERRABLE"])))
    if not made.not_null:
        made.value = f"CASE WHEN i % {draw(st.integers(2, 5))} > 0 THEN {made.value} END"
    return made


@st.composite
def _table(draw, number: int) -> Made:
    name = f"{draw(st.sampled_from(NAMES))} {number}"
    rows = draw(st.sampled_from([0, 3, 80, 120]))
    shape = draw(st.sampled_from(["one", "one", "two", "none"]))
    keys = []
    if shape != "none":
        type_ = draw(st.sampled_from(sorted(KEYS)))
        keys.append(Field("key", type_, KEYS[type_][0], True))
    if shape == "two":
        keys.append(Field("no", "integer", "({i}) % 3", True))
    fields = draw(
        st.lists(st.integers(), min_size=0, max_size=5).flatmap(
            lambda some: st.tuples(
                *(_field(f"{NAMES[i % len(NAMES)]} c{i}") for i in range(len(some)))
            )
        )
    )
    made = Made(name, rows, [item.name for item in keys], [*keys, *fields])
    plain = [item.name for item in fields if item.type in KEYS and item.not_null]
    if len(plain) > 1 and draw(st.booleans()):
        made.rules.append(f"UNIQUE ({ident(plain[0])}, {ident(plain[1])})")
    return made


@st.composite
def databases(draw) -> str:
    """SQL that makes a random schema and fills it."""
    count = draw(st.integers(1, 5))
    tables = [draw(_table(number)) for number in range(count)]
    later: list[str] = []
    for number in range(draw(st.integers(0, 2 * count))):
        child, parent = (tables[draw(st.integers(0, count - 1))] for _ in range(2))
        later += _refer(child, parent, number, draw(st.booleans()), draw(_actions))
    return PREAMBLE + "\n".join([*map(_create, tables), *map(_fill, tables), *later])


_actions = st.sampled_from(
    [
        "",
        " ON DELETE CASCADE",
        " ON DELETE SET NULL",
        " DEFERRABLE INITIALLY DEFERRED",
        " MATCH FULL",
    ]
)


def _refer(child: Made, parent: Made, number: int, wanted: bool, action: str) -> list[str]:
    """A foreign key, added when all tables are filled: cycles and self-references included."""
    if not parent.key:
        return []
    not_null = wanted and parent.rows > 0
    names = []
    by_name = {item.name: item for item in parent.fields}
    for theirs in parent.key:
        target = by_name[theirs]
        value = target.template.format(i=f"1 + i % {parent.rows}") if parent.rows else "NULL"
        made = Field(f"ref {number} {theirs}", target.type, target.template, not_null, value)
        child.fields.append(made)
        names.append(made.name)
    return [
        f"ALTER TABLE {ident(child.name)} ADD FOREIGN KEY ({', '.join(map(ident, names))})"
        f" REFERENCES {ident(parent.name)} ({', '.join(map(ident, parent.key))}){action};"
    ]


def _create(made: Made) -> str:
    lines = [
        " ".join([ident(f.name), f.type, *(["NOT NULL"] if f.not_null else []), *f.rules])
        for f in made.fields
    ]
    if made.key:
        lines.append(f"PRIMARY KEY ({', '.join(map(ident, made.key))})")
    return f"CREATE TABLE {ident(made.name)} ({', '.join(lines + made.rules)});"


def _fill(made: Made) -> str:
    if not made.fields:
        return f"INSERT INTO {ident(made.name)} SELECT FROM generate_series(1, {made.rows});"
    values = ", ".join(item.value for item in made.fields)
    return f"INSERT INTO {ident(made.name)} SELECT {values} FROM generate_series(1, {made.rows}) i;"

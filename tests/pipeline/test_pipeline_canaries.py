"""Canaries: values that one privacy unit holds are looked for in everything that leaves the house.

They lie in free text, names, keys, unique values and numbers; each is held by one unit, so that no
threshold release may let it pass.
"""

from __future__ import annotations

import io
import logging
import re
import sqlite3
import struct
import zipfile
from contextlib import closing
from itertools import product
from pathlib import Path

import market
import psycopg
import pytest
from integrity import pg_dump
from psycopg import conninfo

from privbench import pipeline
from privbench.cli.console import LogReporter

WORDS = {
    "note": "Canary-Quetzal-7781",
    "email": "kestrel.canary@hidden.example",
    "title": "Canary Thing Zyzzyva",
    "reason": "canary-wombat",
}
#: Keys and figures with enough digits that none turns up by chance.
NUMBERS = {
    "customer": 918273645,
    "purchase": 7364518290918,
    "product": 817263549,
    "credit": 31415926.53,
}
MOMENT = "1987-06-05 04:03:02.123457"
TALLY = 23459


def plant(dsn: str) -> str:
    market.create(dsn, 80)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE tally (done boolean NOT NULL)")
        connection.execute(
            "INSERT INTO tally SELECT i %% 3 = 0 FROM generate_series(1, %s) i", [TALLY]
        )
        connection.execute(
            "INSERT INTO customer (id, region, tier, email, note, credit)"
            " VALUES (%(customer)s, 'r3', 'gold', %(email)s, %(note)s, %(credit)s)",
            {**NUMBERS, **WORDS},
        )
        connection.execute(
            "INSERT INTO product VALUES (%(product)s, %(title)s, 77.31, 'ended')",
            {**NUMBERS, **WORDS},
        )
        connection.execute(
            "INSERT INTO purchase VALUES (%(purchase)s, %(customer)s, %(moment)s, NULL, true)",
            {**NUMBERS, "moment": MOMENT},
        )
        connection.execute(
            "INSERT INTO line VALUES (%(purchase)s, 29999, %(product)s, 19, 64.97)", NUMBERS
        )
        connection.execute(
            "INSERT INTO refund (purchase_id, number, reason) VALUES (%s, 29999, %s)",
            [NUMBERS["purchase"], WORDS["reason"]],
        )
        for sequence, key in (("customer_id_seq", "customer"), ("purchase_id_seq", "purchase")):
            connection.execute("SELECT setval(%s, %s)", [sequence, NUMBERS[key]])
        connection.execute("COMMENT ON TABLE tally IS 'Canary-Quetzal-7781'")
        connection.execute("ALTER TABLE tally ALTER done SET (n_distinct = 2)")
        connection.execute("ANALYZE")
    return dsn


@pytest.fixture(scope="module")
def source(make_database):
    return plant(make_database())


def traces() -> list[bytes]:
    """Every form in which a canary could have been kept."""
    found = [word.encode() for word in WORDS.values()]
    found += [word.lower().encode() for word in WORDS.values()]
    found += [str(number).encode() for number in NUMBERS.values()]
    for number in NUMBERS.values():
        scaled = [int(number), round(number * 100)] if isinstance(number, float) else [number]
        found += [struct.pack("<q", value) for value in scaled]
        found += [struct.pack("<d", value) for value in (number, *scaled)]
    return [*found, MOMENT.encode(), b"02.123457"]


def unzipped(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def assert_free(place: str, data: bytes) -> None:
    found = [trace for trace in traces() if trace in data]
    assert not found, (place, found)


@pytest.fixture
def log():
    """What the command line would write to stderr."""
    stream, logger = io.StringIO(), logging.getLogger("privbench")
    logger.handlers[:] = [logging.StreamHandler(stream)]
    logger.setLevel(logging.DEBUG)
    return stream


@pytest.mark.parametrize(
    ("name", "accounting"),
    market.some_slow(
        product(market.CORE, ["pure", "zcdp"]),
        [("independent", "zcdp"), ("privbench-paper", "pure")],
    ),
)
def test_clone_of_canaries_lets_none_leave(source, make_database, tmp_path, log, name, accounting):
    config = market.config(tmp_path / "ledger", epsilon=50.0, delta=1e-9, accounting=accounting)
    path, target = tmp_path / "m.privbench", make_database()
    teller = LogReporter()
    report = pipeline.clone(
        source, target, market.learner(config, name), output=path, reporter=teller
    )
    for member, data in unzipped(path).items():
        assert_free(member, data)
    assert_free("clone", pg_dump(target, "--rows-per-insert=1000").encode())
    files = [file for file in (tmp_path / "ledger").rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert_free(file.name, file.read_bytes())
    assert_free("log", log.getvalue().encode())
    assert_free("report", report.render().encode())
    knows_nothing_of_where_and_how_long(path, source, tmp_path, log.getvalue())
    # The search finds what is there.
    with pytest.raises(AssertionError):
        assert_free("source", pg_dump(source, "--rows-per-insert=1000").encode())


def knows_nothing_of_where_and_how_long(path, source, folder, log) -> None:
    """P5: no timings, snapshot ids, host names, paths; the log has them, the model has not.

    Nor does its DDL bring figures from rows, by sequences, statistics or comments.
    """
    release = re.search(r"release ([0-9a-f-]{36})", log)
    assert release
    assert "peak" in log
    place, parts = conninfo.conninfo_to_dict(source), unzipped(path)
    everything = b"".join(parts.values())
    for word in (place["host"], place["dbname"], str(folder), release[1], "seconds", "peak_"):
        assert str(word).encode() not in everything, word
    assert not re.search(rb"20\d\d-\d\d-\d\dT\d\d:", everything)
    with zipfile.ZipFile(path) as archive:
        assert {item.date_time for item in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    ddl = (parts["ddl/pre.sql"] + parts["ddl/post.sql"]).decode()
    assert "CREATE TABLE public.tally" in ddl
    assert not re.search(r"setval|n_distinct|COMMENT|OWNER|GRANT", ddl)


def test_fit_lets_no_exact_row_count_leave(source, tmp_path, log):
    """Neither in text nor in arrays, at an ε at which a fit in a thousand meets it by chance.

    What leaves without noise does so in every fit; two meet it by chance once in a million.
    """
    count = re.compile(rf"(?<![\d.]){TALLY}(?!\d)")
    assert count.search(f"rows: {TALLY}, ")
    found = places_of(count, source, tmp_path / "first", log)
    if found:
        assert not places_of(count, source, tmp_path / "second", log), found


def places_of(count: re.Pattern[str], source: str, folder: Path, log: io.StringIO) -> list[str]:
    """Where a fit's files and its log hold the exact number of rows of ``tally``."""
    start, path = log.tell(), folder / "m.privbench"
    folder.mkdir()
    config = market.config(folder / "ledger", epsilon=0.02)
    pipeline.fit(source, config, path, reporter=LogReporter())
    members = unzipped(path)
    texts = {name: data.decode(errors="replace") for name, data in members.items()}
    (ledger,) = (folder / "ledger").rglob("ledger.sqlite")
    with closing(sqlite3.connect(ledger)) as connection:
        texts["ledger"] = str(connection.execute("SELECT * FROM entries").fetchall())
    texts["log"] = log.getvalue()[start:]
    forms = [struct.pack(form, TALLY) for form in ("<q", "<i", "<d", "<f")]
    return [name for name, text in texts.items() if count.search(text)] + [
        name for name, data in members.items() if any(form in data for form in forms)
    ]

"""Canaries: values that one privacy unit holds are looked for in everything that leaves the house.

They lie in columns of every type, in keys and in unique values (see `canaries`); each is held by
one unit, so that no threshold release may let it pass.
"""

import io
import logging
import re
import struct
import zipfile
from itertools import product
from pathlib import Path

import market
import pytest
from canaries import CANARIES, CONFIG, leaks, plant, rows_of
from integrity import pg_dump
from psycopg import conninfo
from sql_files import sql_of

from privbench import pipeline
from privbench.cli.console import LogReporter

TALLY = 23459
#: A table of which the number of rows is looked for, and what DDL could bring along.
BESIDE = sql_of(__file__, "beside_canaries", tally=TALLY)


@pytest.fixture(scope="module")
def source(make_database):
    dsn = make_database()
    plant(dsn, 80)
    market.execute(dsn, BESIDE)
    return dsn


def unzipped(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def ledger(folder: Path) -> dict[str, bytes]:
    files = {file.name: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert files
    return files


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
        [("independent", "zcdp"), ("privbench", "pure")],
    ),
)
def test_clone_of_canaries_lets_none_leave(source, make_database, tmp_path, log, name, accounting):
    config = market.config(tmp_path / "ledger", CONFIG, name, epsilon=50.0, accounting=accounting)
    path, target = tmp_path / "m.privbench", make_database()
    report = pipeline.clone(source, target, config, output=path, reporter=LogReporter())
    places = {
        **unzipped(path),
        **ledger(tmp_path / "ledger"),
        "clone": pg_dump(target, "--rows-per-insert=1000").encode(),
        "log": log.getvalue().encode(),
        "report": report.render().encode(),
    }
    assert leaks(places) == []
    knows_nothing_of_where_and_how_long(path, source, tmp_path, log.getvalue())
    # The search finds what is there.
    found = leaks({"source": rows_of(source)})
    assert {whose for _, whose in found} >= {kind for kind, *_ in CANARIES}


def knows_nothing_of_where_and_how_long(path, source, folder, log) -> None:
    """P5: no timings, ids, host names, paths, figures; the log has them, the model has not."""
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
    """At an ε at which a fit in a thousand meets it by chance, and two in a million."""
    assert TOLD.search(b"rows: %d, " % TALLY)
    if found := places_of_tally(source, tmp_path / "first", log):
        assert not places_of_tally(source, tmp_path / "second", log), found


#: The number of rows of ``tally`` as text and in binary form.
TOLD = re.compile(rb"(?<![\d.])%d(?!\d)" % TALLY)
FORMS = [struct.pack(form, TALLY) for form in ("<q", "<i", "<d", "<f")]


def places_of_tally(source: str, folder: Path, log: io.StringIO) -> list[str]:
    """Where a fit's files and its log hold the exact number of rows of ``tally``."""
    folder.mkdir()
    log.truncate(log.seek(0))
    path = folder / "m.privbench"
    config = market.config(folder / "ledger", CONFIG, epsilon=0.02)
    pipeline.fit(source, config, path, reporter=LogReporter())
    places = {**unzipped(path), **ledger(folder / "ledger"), "log": log.getvalue().encode()}
    return [
        name
        for name, data in places.items()
        if TOLD.search(data) or any(form in data for form in FORMS)
    ]

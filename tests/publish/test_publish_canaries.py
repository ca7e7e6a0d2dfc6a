"""Values that one privacy unit holds are in no byte of a bundle."""

from pathlib import Path

import market
import pyarrow as pa
import pyarrow.parquet as papq
import pytest
from canaries import CANARIES, CONFIG, ROLE, leaks, plant, rows_of

from privbench import pipeline
from privbench.publish import publish, verify
from privbench.publish.planner import SERVER


def contents(folder: Path) -> dict[str, bytes]:
    """The bytes of all files, those of Parquet also unpacked: as Arrow holds them, and as text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = {str(path): path.read_bytes() for path in files}
    for path in folder.rglob("*.parquet"):
        table = papq.read_table(path)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        found[f"{path}, unpacked"] = sink.getvalue().to_pybytes()
        found[f"{path}, as text"] = repr(table.to_pylist()).encode()
    return found


@pytest.mark.parametrize(
    ("synthesizer", "rows"),
    [("independent", 60), pytest.param("privbench", 400, marks=pytest.mark.slow)],
)
def test_no_canary_is_in_a_bundle(make_database, server, tmp_path, synthesizer, rows):
    source = make_database()
    plant(source, rows)
    market.execute(
        source,
        f"DO $$ BEGIN CREATE ROLE {ROLE}; EXCEPTION WHEN duplicate_object THEN END $$",
        f"CREATE POLICY seen ON held TO {ROLE} USING (true)",
        "CREATE POLICY everybody ON held USING (true)",
    )
    config = market.config(tmp_path / "ledger", CONFIG, synthesizer)
    pipeline.fit(source, config, tmp_path / "m")
    told = server.major >= SERVER
    publish(
        tmp_path / "m", tmp_path / "bundle", database=make_database(), queries=20, statistics=told
    )
    verify(tmp_path / "bundle")
    assert b"everybody" in (tmp_path / "bundle/schema/after.sql").read_bytes()
    assert leaks(contents(tmp_path / "bundle")) == []
    # The search finds what is there: all of them, in a dump of the source.
    found = leaks({"source": rows_of(source)})
    assert {whose for _, whose in found} >= {kind for kind, *_ in CANARIES}

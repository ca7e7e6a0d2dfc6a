"""A bundle starts from its folder alone, and says what is in it."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
from dataclasses import replace

import market
import psycopg
import pyarrow.parquet as papq
import pytest
import yaml
from bundles import change_facts, render, start
from sql_files import sql_of

from privbench.errors import GateFailed, ModelError, PrivacyRefusal, UsageError
from privbench.pipeline import Model
from privbench.postgres.introspect import introspect
from privbench.postgres.reading import ROWS, reading
from privbench.publish import publish, verify
from privbench.publish.tabular import copy_out, read_chunk, write_parquet


def fingerprint(dsn):
    """Rows and schema of a database."""
    with psycopg.connect(dsn) as connection:
        rows = {
            name: connection.execute(
                f"SELECT count(*), md5(string_agg(t::text, ';' ORDER BY t::text)) FROM {name} t"
            ).fetchone()
            for name in (*market.TABLES, "spending")
        }
        schema = introspect(connection).to_json()
        keys = connection.execute("SELECT nextval('customer_id_seq'), nextval('refund_id_seq')")
        return rows, schema, keys.fetchone()


def test_it_starts_from_the_folder_alone(original, make_database):
    """By psql and the script, into an empty database; twice the same, and not into a full one."""
    first, second = make_database(), make_database()
    assert start(original, "check").returncode == 0
    for dsn in (first, second):
        done = start(original, "load", dsn)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert fingerprint(first) == fingerprint(second)
    assert market.one(first, "SELECT count(*) FROM line") > 0
    stated = json.loads((original / "bundle.json").read_text())["tables"]
    counts = {table["name"]: table["rows"] for table in stated}
    assert counts == market.counts(first)
    again = start(original, "load", first)
    assert again.returncode != 0
    assert "already exists" in again.stderr
    assert fingerprint(first)[0] == fingerprint(second)[0]
    assert start(original, "queries", second).returncode == 0


def test_verify_says_what_holds_and_what_is_trusted(original, model):
    found = verify(original)
    holds, _, trust = found.render().partition("What you have to trust:")
    assert "each has its checksum" in holds
    assert "not signed" in trust
    assert "public.region, copied verbatim" in trust
    assert found.certificate.promise.epsilon == Model.load(model).promise.epsilon
    assert len(found.certificate.events) == len(Model.load(model).events)
    assert found.certificate.model == hashlib.sha256(model.read_bytes()).hexdigest()


def test_its_texts_say_what_the_certificate_says(original, model):
    promise = Model.load(model).promise
    text = (original / "certificate.md").read_text()
    assert (
        "- one row of public.customer, with all the rows that it owns in public.purchase, "
        "public.line, public.refund\n" in text
    )
    assert f"| ε | {promise.epsilon:.6g} |" in text
    assert text.count("| discrete ") + text.count("threshold |") == len(Model.load(model).events)
    assert "one row of public.purchase without an owner (customer_id leads to no row)" in text
    entry = yaml.safe_load((original / "deployment.yaml").read_text())
    loss = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert loss["epsilon"] == pytest.approx(promise.epsilon)
    assert loss["delta"] == pytest.approx(promise.delta)
    assert entry["deployment"]["basic"]["name"] == "The |market|"
    assert "Copied verbatim, as the data's owner declared: `public.region`." in text
    service = yaml.safe_load((original / "compose.yaml").read_text())["services"]["benchmark"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "trust" not in json.dumps(service)


def test_its_texts_say_that_sizes_were_in_sight(original, tmp_path):
    folder = shutil.copytree(original, tmp_path / "b")
    said = "Estimates of the tables' sizes were in sight; what such a choice reveals, ε does not"
    assert said not in (folder / "certificate.md").read_text()
    change_facts(folder / "certificate.json", lambda data: data["promise"].update(sizes_shown=True))
    render(folder)
    for name in ("certificate.md", "deployment.yaml"):
        assert said in (folder / name).read_text()


def test_metadata_name_every_file_of_rows_with_its_digest(original):
    croissant = json.loads((original / "croissant.json").read_text())
    listed = {
        item["contentUrl"]: item["sha256"]
        for item in croissant["distribution"]
        if item["@type"] == "cr:FileObject"
    }
    files = {str(path.relative_to(original)) for path in original.rglob("*.parquet")}
    assert listed.keys() == files
    for path, digest in listed.items():
        assert hashlib.sha256((original / path).read_bytes()).hexdigest() == digest
    sets = {item["@id"]: item for item in croissant["recordSet"]}
    assert [key["@id"] for key in sets["public.line"]["key"]] == [
        "public.line/purchase_id", "public.line/number",
    ]  # fmt: skip
    assert "total" not in [
        field["source"]["extract"]["column"] for field in sets["public.line"]["field"]
    ]


def test_metadata_are_valid_for_their_own_tool(original):
    import mlcroissant

    found = mlcroissant.Dataset(jsonld=str(original / "croissant.json"))
    assert not found.metadata.issues.errors
    tables = json.loads((original / "bundle.json").read_text())["tables"]
    assert [sum(1 for _ in found.records(part.uuid)) for part in found.metadata.record_sets] == [
        table["rows"] for table in tables
    ]


@pytest.mark.slow
def test_a_signed_bundle_names_its_key(model, make_database, tmp_path):
    """A workload declared public keeps none of its literals, weights, comments and names."""
    for name in ("key", "other"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True
        )
    given = tmp_path / "queries.json"
    query = "SELECT count(*) AS canaryname FROM customer WHERE note = 'Canary-7781' -- canarynote"
    item = {"id": "canaryid", "sql": query, "card": 471147114711, "weight": 8.125}
    given.write_text(json.dumps({"privbench-workload": 1, "name": "canary", "queries": [item]}))
    folder = tmp_path / "bundle"
    found, older = Model.load(model), tmp_path / "older"
    replace(found, schema=replace(found.schema, server_version=140_005)).save(older)
    publish(
        older, folder, database=make_database(), workload=given, key=tmp_path / "key", scale=0.5
    )
    assert "image: postgres:14\n" in (folder / "compose.yaml").read_text(), "that of the source"
    texts = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for trace in ("Canary-7781", "canaryname", "canarynote", "canaryid", "471147114711", "8.125"):
        assert trace.encode() not in texts
    assert b"declared public" in texts
    assert "not named" not in verify(folder).render()
    assert "signed by the key that you named" in verify(folder, key=tmp_path / "key.pub").render()
    with pytest.raises(GateFailed, match=r"SHA256SUMS\.sig: "):
        verify(folder, key=tmp_path / "other.pub")
    signature = folder / "SHA256SUMS.sig"
    data = signature.read_bytes()
    for place in range(0, len(data), 41):
        signature.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(GateFailed, match=r"SHA256SUMS\.sig: "):
            verify(folder)
    signature.unlink()
    with pytest.raises(GateFailed, match=r"SHA256SUMS\.sig: missing"):
        verify(folder, key=tmp_path / "key.pub")


def test_what_is_not_private_is_not_published(model, tmp_path):
    found = Model.load(model)
    replace(found, promise=replace(found.promise, private=False)).save(tmp_path / "m")
    words = ("publish", tmp_path / "m", "-o", tmp_path / "bundle")
    market.fail(PrivacyRefusal.exit_code, "NOT PRIVATE", *words)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_confidential_workload_is_not_published(model, tmp_path):
    given = tmp_path / "queries.json"
    item = {"id": "q", "sql": "SELECT count(*) FROM customer"}
    head = {"privbench-workload": 1, "name": "captured", "confidential": True}
    given.write_text(json.dumps({**head, "queries": [item]}))
    with pytest.raises(PrivacyRefusal, match="'captured' is CONFIDENTIAL"):
        publish(model, tmp_path / "bundle", workload=given)
    assert [path.name for path in tmp_path.iterdir()] == ["queries.json"]


DAYS = ("2020-13-45", "2021-02-29", "yesterday", "2020-01-01T00:00")
TOLD = [
    *((name, "a\x1b[2J", f"be described: {name}") for name in ("title", "publisher", "licence")),
    *(("date", day, f"'--date': '{day}' does not match") for day in DAYS),
]


@pytest.mark.parametrize(("option", "value", "said"), TOLD)
def test_what_cannot_be_told_of_a_bundle_is_refused_before_any_work(tmp_path, option, value, said):
    """The model is not even read."""
    words = ("publish", tmp_path / "m", "-o", tmp_path / "bundle", f"--{option}", value)
    assert "\x1b" not in market.fail(UsageError.exit_code, said, *words).stderr
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_stays_as_it_is(model, tmp_path):
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        publish(model, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_everybody_may_read_it_and_it_tells_nothing_of_where_it_was_made(original, model):
    for path in (original, *original.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644)
    # Neither the folder and the model file nor the database that the clone was made in.
    texts = b"".join(path.read_bytes() for path in original.rglob("*") if path.is_file())
    for word in (original.parent.name, model.name, f"test_{os.getpid()}"):
        assert word.encode() not in texts


@pytest.mark.parametrize("end", ["\\n", "\\r\\n"])
def test_rows_that_psql_would_cut_are_not_written(make_database, tmp_path, end):
    """Before version 18, psql takes a line ``\\.`` for the end of the rows, even within quotes."""
    text = f"E'a\\n\\\\.{end}b'"
    dsn = make_database(f"CREATE TABLE t (i integer, x text); INSERT INTO t VALUES (1, {text})")
    with reading(dsn, ROWS) as connection:
        table = introspect(connection).table("t")
        copy_out(connection, table, ["i", "x"], tmp_path)
    with pytest.raises(ModelError, match=r"00001\.csv has a text with the line \\\."):
        write_parquet([tmp_path / "00001.csv"], table.columns)


def test_files_hold_the_rows_that_the_database_holds(make_database, tmp_path):
    """Empty texts and NULL, quotes, line ends, NaN; what no Arrow type holds is text."""
    dsn = make_database(statements=sql_of(__file__, "edges"))
    with reading(dsn, ROWS) as connection:
        table = introspect(connection).table("edges")
        names = [column.name for column in table.columns]
        assert copy_out(connection, table, names, tmp_path) == [3]
    kinds = write_parquet([tmp_path / "00001.csv"], table.columns)
    assert dict(zip(names, kinds, strict=True)) == {
        'a "b",c': "text", "n": "decimal(6,2)", "m": "text", "f": "float64", "r": "float32",
        "d": "text", "t": "timestamp", "z": "text", "b": "bool", "i": "int16",
    }  # fmt: skip
    rows = papq.read_table(tmp_path / "00001.parquet").to_pylist()
    assert [row['a "b",c'] for row in rows] == ["", None, 'x\n"\\.\n,;']
    assert [str(row["n"]) for row in rows] == ["1.50", "None", "-9999.99"]
    assert [row["i"] for row in rows] == [-32768, None, 7]
    assert [row["d"] for row in rows] == ["2020-02-29", None, "infinity"]
    assert repr(read_chunk(tmp_path / "00001.csv", names, kinds).to_pylist()) == repr(rows)
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TEMP TABLE again (LIKE edges)")
        with cursor.copy("COPY again FROM STDIN (FORMAT csv, HEADER true)") as copy:
            copy.write((tmp_path / "00001.csv").read_bytes())
        cursor.execute("SELECT count(*) FROM (TABLE again EXCEPT TABLE edges) x")
        assert cursor.fetchone() == (0,)

"""Model files that somebody damaged or wrote in bad faith: refused, and nothing in them runs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile

import market
import numpy as np
import psycopg
import pytest

from privbench import pipeline
from privbench.errors import DatabaseError, ModelError, PrivbenchError
from privbench.pipeline import Model, ddl_guard


@pytest.fixture(scope="module")
def model(make_database, tmp_path_factory):
    """An honest model file."""
    folder = tmp_path_factory.mktemp("honest")
    source = make_database()
    market.create(source, 20)
    config = market.learner(market.config(folder / "ledger", epsilon=50.0), "independent")
    pipeline.fit(source, config, folder / "m.privbench")
    return folder / "m.privbench"


def members(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge(path, target, change, *, rehash=True):
    """A copy of a model with changed members and, unless told otherwise, fitting hashes."""
    parts = members(path)
    header = json.loads(parts.pop("header.json"))
    change(parts, header)
    if rehash:
        header["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("header.json", json.dumps(header, sort_keys=True, ensure_ascii=False))
        for name, data in parts.items():
            archive.writestr(name, data)
    return target


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def with_ddl(text, member="ddl/pre.sql"):
    def change(parts, header):
        parts[member] += text.encode()

    return change


def test_an_honest_copy_loads(model, tmp_path, make_database):
    forge(model, tmp_path / "copy", lambda parts, header: None)
    assert pipeline.load(tmp_path / "copy", make_database()).rows["public.region"] == 4


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_truncated(model, tmp_path, share):
    data = model.read_bytes()
    (tmp_path / "m").write_bytes(data[: int(share * len(data))])
    with pytest.raises(ModelError, match=r"not a readable model .*Fit it again"):
        Model.load(tmp_path / "m")


def test_not_there_and_not_a_zip(tmp_path):
    with pytest.raises(ModelError, match="there is no model"):
        Model.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(ModelError, match="not a readable model"):
        Model.load(tmp_path / "text")


def test_flipped_bytes_never_pass(model, tmp_path):
    """A flipped bit anywhere is refused or changes nothing that is read."""
    data, honest = bytearray(model.read_bytes()), members(model)
    for at in range(0, len(data), max(len(data) // 150, 1)):
        spoilt = bytearray(data)
        spoilt[at] ^= 0x40
        (tmp_path / "m").write_bytes(spoilt)
        try:
            Model.load(tmp_path / "m")
        except ModelError:
            continue
        assert members(tmp_path / "m") == honest


@pytest.mark.parametrize("member", ["arrays/0.npy", "ddl/pre.sql", "public/0.npy"])
def test_wrong_hash(model, tmp_path, member):
    def change(parts, header):
        parts[member] += b" "

    forge(model, tmp_path / "m", change, rehash=False)
    with pytest.raises(ModelError, match=f"{member} does not match its hash"):
        Model.load(tmp_path / "m")


def test_a_member_outside_the_hashes_is_not_read(model, tmp_path):
    def change(parts, header):
        del header["sha256"]["arrays/0.npy"]

    forge(model, tmp_path / "m", change, rehash=False)
    with pytest.raises(ModelError):
        Model.load(tmp_path / "m")


def test_pickle_is_not_loaded(model, tmp_path):
    def change(parts, header):
        buffer = io.BytesIO()
        np.save(buffer, np.array([Bomb(tmp_path / "boom")], dtype=object), allow_pickle=True)
        parts["arrays/0.npy"] = buffer.getvalue()

    forge(model, tmp_path / "m", change)
    with pytest.raises(ModelError):
        Model.load(tmp_path / "m")
    assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda parts, header: header.update(version=99),
        lambda parts, header: header.update(format="other"),
        lambda parts, header: header.pop("schema"),
        lambda parts, header: header.update(promise={"epsilon": 1}),
        lambda parts, header: header.update(promise=7),
        lambda parts, header: header.update(tables=[]),
        lambda parts, header: header.update(tables={"public.customer": {}}),
        lambda parts, header: header.update(synthesizer="os.system"),
        lambda parts, header: header.update(state={}),
        lambda parts, header: header.update(state=[1]),
        lambda parts, header: header.update(arrays=[]),
        lambda parts, header: header.update(public=[]),
        lambda parts, header: header["tables"]["public.customer"]["codecs"].pop("tier"),
        lambda parts, header: header["tables"]["public.customer"]["codecs"]["tier"].update(
            codec="eval"
        ),
        lambda parts, header: header["schema"].update(tables=[]),
    ],
)
def test_a_header_that_does_not_fit(model, tmp_path, change):
    forge(model, tmp_path / "m", change)
    with pytest.raises(PrivbenchError) as caught:
        pipeline.sample(tmp_path / "m", tmp_path / "out")
    assert caught.value.exit_code == 2


def test_an_oversized_archive_is_refused_unread(model, tmp_path, monkeypatch):
    monkeypatch.setattr("privbench.pipeline.archive.MAX_BYTES", 1000)
    with pytest.raises(ModelError, match="unpacks to more than 1,000 bytes"):
        Model.load(model)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("COPY region TO PROGRAM 'sh';", r"not allowed \(COPY\)"),
        ("SELECT pg_read_file('/etc/passwd');", r"not allowed \(SELECT\)"),
        ("DO $$ BEGIN PERFORM 1; END $$;", r"not allowed \(DO\)"),
        ("ALTER SYSTEM SET archive_command = 'sh';", r"not allowed \(ALTER\)"),
        ("CREATE ROLE me SUPERUSER;", r"not allowed \(CREATE\)"),
        ("CREATE SERVER s FOREIGN DATA WRAPPER w;", r"not allowed \(CREATE\)"),
        ("CREATE EVENT TRIGGER e ON ddl_command_end EXECUTE FUNCTION f();", "not allowed"),
        ("SET session_replication_role = replica;", r"not allowed \(SET\)"),
        ("SET default_tablespace = 'mine';", r"not allowed \(SET\)"),
        ("CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1';", "holds a program"),
        ("CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS '';", "holds a program"),
        ("CREATE TRIGGER t BEFORE INSERT ON region EXECUTE FUNCTION f();", "holds a program"),
        ("CREATE RULE r AS ON INSERT TO region DO ALSO NOTIFY x;", "holds a program"),
        (
            "CREATE MATERIALIZED VIEW m AS SELECT pg_read_file('/etc/passwd');",
            "calls pg_read_file, which acts",
        ),
        ("CREATE TABLE t AS SELECT lo_export(1, '/tmp/x');", "calls lo_export"),
        ("ALTER TABLE region ADD x text DEFAULT \"pg_read_file\"('/x');", "calls pg_read_file"),
        ("CREATE TABLE t (i int DEFAULT pg_catalog.set_config('a.b', 'c', false)::int);", "calls"),
        ("CREATE TABLE foo$a$ (i int); COPY region TO PROGRAM 'sh'; -- $a$", r"\(COPY\)"),
        ("CREATE TABLE a (i int); -- x\rCOPY region TO PROGRAM 'sh';", r"\(COPY\)"),
        ("CREATE TABLE a (t text DEFAULT '\\'); COPY region TO PROGRAM 'sh'; --');", r"\(COPY\)"),
    ],
)
@pytest.mark.parametrize("member", ["ddl/pre.sql", "ddl/post.sql"])
def test_ddl_beyond_a_schema(model, tmp_path, make_database, text, reason, member):
    forge(model, tmp_path / "m", with_ddl(text, member))
    # Refused before a connection is made.
    with pytest.raises(ModelError, match=reason):
        pipeline.load(tmp_path / "m", "host=/nowhere")


def test_ddl_with_an_open_string(model, tmp_path):
    forge(model, tmp_path / "m", with_ddl("CREATE TABLE t (x text DEFAULT 'open);"))
    with pytest.raises(PrivbenchError, match="without an end") as caught:
        pipeline.load(tmp_path / "m", "host=/nowhere")
    assert caught.value.exit_code == 2


def test_a_text_that_postgresql_splits_otherwise(model, tmp_path, make_database):
    """A continued E'' string: one statement to sqlglot's tokenizer, three to PostgreSQL."""
    target, proof = make_database(), tmp_path / "proof"
    attack = "CREATE TABLE t (x text DEFAULT E'a'\n'\\''); CREATE TABLE {} (i int); --');"
    ddl_guard.check(attack.format("smuggled"), trust=False)
    with psycopg.connect(target) as connection:
        connection.execute(attack.format("smuggled").encode())
        assert connection.execute("SELECT to_regclass('smuggled')").fetchone() != (None,)
        connection.rollback()
    program = "CREATE TABLE t (x text DEFAULT E'a'\n'\\''); COPY (SELECT 1) TO PROGRAM "
    program += f"'touch {proof}'; --');"
    tmp_path.chmod(0o777)
    forge(model, tmp_path / "m", with_ddl(program))
    with pytest.raises(DatabaseError, match="multiple commands"):
        pipeline.load(tmp_path / "m", target)
    assert not proof.exists()
    assert market.ask(target, "SELECT 1 FROM pg_class WHERE relnamespace = 2200") == []


def test_trusted_programs_are_let_through(model, tmp_path, make_database):
    target = make_database()
    body = "BEGIN ATOMIC SELECT 1; SELECT 2; END;"
    program = f"CREATE FUNCTION public.two() RETURNS int LANGUAGE sql {body}"
    forge(model, tmp_path / "m", with_ddl(program))
    with pytest.raises(ModelError, match=r"holds a program.*--trust-programs"):
        pipeline.load(tmp_path / "m", target)
    pipeline.load(tmp_path / "m", target, trust_programs=True)
    assert market.one(target, "SELECT two()") == 2


def test_names_from_a_header_are_only_names(model, tmp_path, make_database):
    """A table name that is SQL stays a name."""
    evil = 'x"; DROP TABLE region; --'

    def change(parts, header):
        text = json.dumps(header["schema"]).replace('"region_pkey"', json.dumps(evil))
        header["schema"] = json.loads(text)

    target = make_database()
    forge(model, tmp_path / "m", change)
    pipeline.load(tmp_path / "m", target)
    assert market.one(target, "SELECT count(*) FROM region") == 4

"""Model files that somebody damaged or wrote in bad faith: refused, and nothing in them runs."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile

import market
import numpy as np
import pytest

from privbench import pipeline
from privbench.errors import ModelError, PrivbenchError
from privbench.pipeline import Model


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


def test_trusted_programs_are_let_through(model, tmp_path, make_database):
    target = make_database()
    body = "BEGIN ATOMIC SELECT 1; SELECT 2; END;"
    program = f"CREATE FUNCTION public.two() RETURNS int LANGUAGE sql {body}"
    forge(model, tmp_path / "m", with_ddl(program))
    assert "defines a function" in pipeline.load(tmp_path / "m", target).lost[0]
    pipeline.load(tmp_path / "m", target, trust_programs=True, replace=True)
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

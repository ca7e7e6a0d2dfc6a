"""Members of models that a stranger made: the archive, its arrays, and public rows."""

import contextlib
import json
import resource
import stat
import struct
import zipfile

import model_files
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privbench import pipeline
from privbench.errors import ModelError, UsageError
from privbench.pipeline import Model, archive


def refused(path, match=None):
    with pytest.raises(ModelError, match=match) as caught:
        Model.load(path)
    assert caught.value.exit_code == 2


def raw(model, target, change):
    """The archive with its members written by hand: ``change`` may add what no tool writes."""
    parts = model_files.members(model)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in parts.items():
            made.writestr(name, data)
        change(made, parts)
    return target


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "/etc/passwd", "arrays/../x.npy", "arrays/00.npy", "arrays/-1.npy",
     "arrays/1.npy ", "ARRAYS/0.npy", "x", "arrays/0.npy\0", "arrays/999.npy", "public/0.arrow",
     "public/0.csv/", "arrays/١.npy", "ddl/post.sql.exe", "header.json/",
     "header.json", "arrays/0.npy", "ddl/pre.sql"],
)  # fmt: skip
def test_load_of_a_member_by_another_name_or_twice_is_refused(model, tmp_path, name):
    """Attack: members that the header or a path names; one that is checked, another that is used.

    Door: archive. Names are the tool's, those that the header lists, each once.
    """
    parts = model_files.members(model)
    forged = raw(model, tmp_path / "m", lambda made, _: made.writestr(name, parts.get(name, b"x")))
    refused(forged, "twice" if name in parts else None)


@pytest.mark.parametrize("name", ["arrays/0.npy", "ddl/pre.sql", "public/0.csv"])
@pytest.mark.parametrize("hashed", [True, False])
def test_load_of_a_member_of_another_hash_is_refused(model, tmp_path, name, hashed):
    """Attack: a member that is not what was hashed. Door: archive. Every member has its hash."""
    parts, head = model_files.parts_of(model)
    if hashed:
        parts[name] += b" "
    else:
        del head["sha256"][name]
    model_files.write(tmp_path / "m", parts, json.dumps(head).encode())
    refused(tmp_path / "m", f"{name} does not match its hash" if hashed else "not those of its")


@pytest.mark.parametrize("name", ["header.json", "ddl/pre.sql", "ddl/post.sql"])
def test_load_of_a_small_archive_of_a_large_header_is_refused(model, tmp_path, name):
    """Attack: 3 MB that unpack to 3 GB. Door: archive. Stated sizes are capped before unpacking."""
    parts = {n: d for n, d in model_files.members(model).items() if n != name}
    with zipfile.ZipFile(tmp_path / "m", "w", zipfile.ZIP_DEFLATED) as made:
        with made.open(name, "w") as member:
            for _ in range(40):
                member.write(b" " * 2**20)
        for other, data in parts.items():
            made.writestr(other, data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(tmp_path / "m", "more than 33,554,432 bytes")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_load_of_a_model_cut_short_is_refused(model, tmp_path, share):
    """Attack: a download that was broken off. Door: archive. The message says what to do."""
    data = model.read_bytes()
    (tmp_path / "m").write_bytes(data[: int(share * len(data))])
    refused(tmp_path / "m", r"not a readable model .*Fit it again")


def test_load_of_a_member_longer_than_it_says_is_refused(model, tmp_path):
    """Attack: a stated size of 10 bytes before 100 MB. Door: archive. No more is read."""
    target = raw(model, tmp_path / "m", lambda made, parts: None)
    data = bytearray(target.read_bytes())
    with zipfile.ZipFile(target) as made:
        size = made.getinfo("header.json").file_size
    at = data.rfind(b"PK\1\2", 0, data.find(b"header.json", data.find(b"PK\1\2")))
    assert struct.unpack_from("<L", data, at + 24)[0] == size
    struct.pack_into("<L", data, at + 24, 10)
    target.write_bytes(data)
    refused(target)


@pytest.mark.parametrize("field", [(24, 2**32 - 2), (20, 3), (24, 0), (10, 14), (8, 1)])
def test_load_of_a_directory_that_lies_is_refused(model, tmp_path, field):
    """Attack: other sizes, another compression, encryption. Door: archive. What lies is refused."""
    target = raw(model, tmp_path / "m", lambda made, parts: None)
    data = bytearray(target.read_bytes())
    at = data.find(b"PK\1\2")
    struct.pack_into("<H" if field[0] in (8, 10) else "<L", data, at + field[0], field[1])
    target.write_bytes(data)
    refused(target)


@pytest.mark.parametrize("count", [2**16 + 1, 10**6])
def test_load_of_a_directory_without_end_is_refused(tmp_path, count):
    """Attack: millions of empty members. Door: archive. The directory's size is read first."""
    end = struct.pack(
        "<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, min(count * 150, 2**32 - 1), 0, 0
    )
    (tmp_path / "m").write_bytes(b"\0" * 200 + end)
    refused(tmp_path / "m", "more than 65,536 members")
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, count * 150, 0)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 200, 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    (tmp_path / "m").write_bytes(b"\0" * 200 + end64 + locator + end)
    refused(tmp_path / "m", "more than 65,536 members")


def test_load_of_no_file_or_too_large_a_one_is_refused(tmp_path, model, monkeypatch):
    """Attack: a folder, a device, a comment behind the archive. Door: archive. Each is refused."""
    refused(tmp_path)
    refused("/dev/null")
    with zipfile.ZipFile(tmp_path / "m", "w") as made:
        made.comment = b"PK\5\6"
    refused(tmp_path / "m")
    # Attack: many members of a permitted size. Door: archive. Their sum is capped.
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    refused(model, "unpacks to more than 1,000 bytes")


def npy(kind, shape, body=b"", turned=False):
    """A file of an array as it says of itself."""
    text = f"{{'descr': {kind}, 'fortran_order': {turned}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + body


#: Arrays that are none.
ARRAYS = {
    "a shape of 2^60": npy("'<f8'", f"({2**60},)"),
    "a shape that wraps around": npy("'<f8'", f"({2**32}, {2**32})"),
    "a negative shape": npy("'<f8'", "(-1, -1)", b"\0" * 8),
    "a shape of 40 axes": npy("'|u1'", f"({'1, ' * 40})", b"\0"),
    "objects": npy("'|O'", "(1,)", b"\0" * 8),
    "texts": npy("'<U9'", "(1,)", b"\0" * 36),
    "records": npy("[('a', '<f8')]", "(1,)", b"\0" * 8),
    "times": npy("'<M8[s]'", "(1,)", b"\0" * 8),
    "complex numbers": npy("'<c16'", "(1,)", b"\0" * 16),
    "long doubles": npy("'<f16'", "(1,)", b"\0" * 16),
    "numbers the other way round": npy("'>f8'", "(1,)", b"\0" * 8),
    "columns first": npy("'<f8'", "(1,)", b"\0" * 8, turned=True),
    "fewer numbers": npy("'<f8'", "(3,)", b"\0" * 8),
    "more numbers": npy("'<f8'", "(1,)", b"\0" * 800),
    "a shape that is code": npy("'<f8'", "(__import__('os'),)"),
    "a shape that is nested": npy("'<f8'", "(" * 5000 + ")" * 5000),
    "another version": b"\x93NUMPY\2\0" + b"\0" * 100,
    "nothing": b"",
    "a pickle": b"\x80\x04cos\nsystem\n",
}


@pytest.mark.parametrize("attack", ARRAYS)
def test_load_of_arrays_that_are_none_is_refused(model, tmp_path, attack):
    """Attack: see the parameter. Door: arrays. Type and shape have to be those of the bytes."""
    forged = model_files.forge(
        model, tmp_path / "m", lambda parts, head: parts.update({"arrays/0.npy": ARRAYS[attack]})
    )
    refused(forged)


@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0, 1e308])
@pytest.mark.parametrize("synthesizer", ["independent", "privbench"])
def test_sample_of_odd_weights_is_refused_or_sound(honest, tmp_path, synthesizer, number):
    parts, head = model_files.parts_of(honest[synthesizer])
    # The last array of each kind: tables are read alike.
    last = {name.rsplit("/")[-1]: f"arrays/{at}.npy" for at, name in enumerate(head["arrays"])}
    for member in last.values():
        array = archive.read_array(parts[member]).copy()
        if array.dtype == np.float64 and array.size:
            array[-1] = number
            forged = {**parts, member: archive.array_bytes(array)}
            with contextlib.suppress(UsageError):
                path = model_files.write(tmp_path / "m", forged, head)
                pipeline.sample(path, tmp_path / member.replace("/", "_"), seed=1)


def regions(model):
    """The rows of the public table."""
    return Model.load(model).public["public.region"]


def with_rows(model, target, data):
    """A model with other bytes of its public table, which has two columns."""
    return model_files.forge(
        model, target, lambda parts, head: parts.update({"public/0.csv": bytes(data)})
    )


def part(rows, size=None):
    """Rows of a public table after their size."""
    return b"%d\n%b" % (len(rows) if size is None else size, rows)


def test_load_of_an_honest_row_reads_it(model, tmp_path):
    """The row that the attacks change is one."""
    found = Model.load(with_rows(model, tmp_path / "m", part(b'"n",""\n'))).public["public.region"]
    assert found.to_pylist() == [{"code": "n", "title": ""}]


#: What is no table of two columns, or holds what is no text.
TABLES = {
    **{
        what: part(rows)
        for what, rows in {
            "a column more": b'"n","north",\n',
            "a column fewer": b'"n"\n',
            "rows unlike each other": b'"n","north"\n"s"\n',
            "bytes that are no UTF-8": b'"n","\xff\xfe"\n',
            "half a character": b'"n","1234\xc3"\n',
            "a surrogate": b'"n","\xed\xa0\x80"\n',
            "a zero byte": b'"n","a\0b"\n',
            "no rows": b"",
        }.items()
    },
    **{
        f"a size of {size}": part(b'"n","north"\n', size)
        for size in (-1, 0, 3, 10**6, 2**63, 10**400)
    },
    "no size": b'"n","north"\n',
    "a number of rows": b"7",
}


@pytest.mark.parametrize("wrong", TABLES)
def test_load_of_public_data_that_is_no_table_is_refused(model, tmp_path, wrong):
    """Attack: see the parameter. Door: public data. Columns are counted and texts validated."""
    refused(with_rows(model, tmp_path / "m", TABLES[wrong]))


@pytest.mark.parametrize("kind", ["file", "stream", "zstd"])
def test_load_of_arrow_files_is_refused(model, tmp_path, kind):
    """Attack: Arrow's own files, which can crash its reader. Door: public data. None is read."""
    table, sink = regions(model), pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if kind == "zstd" else None)
    make = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with make(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    refused(with_rows(model, tmp_path / "m", bytes(sink.getvalue())))


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(st.lists(st.tuples(st.none() | texts, st.none() | texts), max_size=20), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_read_table_gives_texts_back(rows, cut):
    """NULL, the empty text, slices and chunks are what they were."""
    table = pa.table({
        "a": pa.array([row[0] for row in rows], pa.string()),
        "b": pa.array([row[1] for row in rows], pa.string()),
    })  # fmt: skip
    table = pa.concat_tables([table.slice(cut), table])
    assert archive.read_table(archive.table_bytes(table), ["a", "b"]).equals(table)


@pytest.mark.parametrize("rows", [b"1099511627776", b"-1", b"", b"1e3", b"9" * 5000, b"\xff"])
def test_read_table_without_columns_is_capped(rows):
    with pytest.raises((ModelError, ValueError)):
        archive.read_table(rows, [])
    table = pa.Table.from_struct_array(pa.nulls(3, pa.struct([])))
    assert archive.read_table(archive.table_bytes(table), []).num_rows == 3


@pytest.mark.parametrize(
    "value",
    ["=cmd|' /C calc'!A0", "a\r\n1,2", '"', "\\.", "\\N", "x" * 100_000, "\ufeff", "\u2028",
     "'; DROP"],
)  # fmt: skip
def test_sample_of_values_with_marks_quotes_them(model, tmp_path, value):
    """Marks of CSV and COPY."""
    import csv

    table = regions(model)
    place = next(i for i, name in enumerate(table.column_names) if name == "title")
    made = table.set_column(place, "title", pa.array([value] * table.num_rows, pa.string()))
    forged = with_rows(model, tmp_path / "m", archive.table_bytes(made))
    pipeline.sample(forged, tmp_path / "out")
    csv.field_size_limit(10**7)
    with (tmp_path / "out" / "public.region.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["title"] for row in rows] == [value] * table.num_rows


def test_save_that_breaks_leaves_the_model_that_was_there(model, tmp_path, monkeypatch):
    (tmp_path / "m").write_bytes(b"old")
    honest = Model.load(model)

    def full(file, members):
        file.write(b"PK")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "write", full)
    with pytest.raises(ModelError, match="No space left"):
        honest.save(tmp_path / "m")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_save_is_its_owners_and_always_the_same(model, tmp_path):
    Model.load(model).save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == model.read_bytes()
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o600
    assert json.loads(model_files.members(model)["header.json"])["version"] == 9


def test_read_table_of_many_short_parts_is_refused():
    with pytest.raises(ModelError, match="more parts than rows need"):
        archive.read_table(b"1\n\n" * 1_000_000, ["a"])

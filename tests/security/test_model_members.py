"""Members of models that a stranger made: the archive, its arrays, and public rows."""

import contextlib
import csv
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
from privbench.synthesizers.model import wide


def zipped(target, parts, *more):
    """An archive with its members written by hand, and ``more`` that no tool writes."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in (*parts.items(), *more):
            made.writestr(name, data)


def with_member(name):
    """Another member, or one of a name that is taken."""
    return lambda target, parts: zipped(target, parts, (name, parts.get(name, b"x")))


def with_parts(**members):
    """Other bytes of members, with fitting hashes."""

    def write(target, parts):
        header = json.loads(parts.pop("header.json"))
        model_files.write(target, {**parts, **members}, header)

    return write


def with_array(data):
    return with_parts(**{"arrays/0.npy": data})


def with_rows(data):
    """Other bytes of the public table, which has two columns."""
    return with_parts(**{"public/0.csv": data})


def with_hash(name, hashed):
    """A member that is not what was hashed, or that was not."""

    def write(target, parts):
        header = json.loads(parts.pop("header.json"))
        if hashed:
            parts[name] += b" "
        else:
            del header["sha256"][name]
        model_files.write(target, parts, json.dumps(header).encode())

    return write


def of_forty_mebibytes(name):
    """A small archive of a large member."""
    return lambda target, parts: zipped(target, {**parts, name: b" " * (40 << 20)})


def cut(share):
    """A download that was broken off."""

    def write(target, parts):
        zipped(target, parts)
        target.write_bytes(target.read_bytes()[: int(share * target.stat().st_size)])

    return write


def with_field(offset, form, number, member=None):
    """A number in the directory's entry of a member, or of the first one."""

    def write(target, parts):
        zipped(target, parts)
        data = bytearray(target.read_bytes())
        at = data.find(b"PK\1\2")
        if member is not None:
            at = data.rfind(b"PK\1\2", 0, data.find(member, at))
        struct.pack_into(form, data, at + offset, number)
        target.write_bytes(data)

    return write


def of_many_members(count, wide):
    """A directory of so many empty members, in the fields of the short or of the wide form."""
    size = min(count * 150, 2**32 - 1)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, size, 0, 0)
    if wide:
        end = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, count * 150, 0)
        end += struct.pack("<4sLQL", b"PK\6\7", 0, 200, 1)
        end += struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 2**32 - 1, 2**32 - 1, 0)
    return lambda target, _: target.write_bytes(b"\0" * 200 + end)


def with_a_comment(target, parts):
    with zipfile.ZipFile(target, "w") as made:
        made.comment = b"PK\5\6"


def npy(kind, shape, body=b"", turned=False):
    """A file of an array as it says of itself."""
    text = f"{{'descr': {kind}, 'fortran_order': {turned}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + body


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


def sized(rows, size=None):
    """Rows of a public table after their size."""
    return b"%d\n%b" % (len(rows) if size is None else size, rows)


ROW = b'"n","north"\n'
TABLES = {
    "a column more": sized(b'"n","north",\n'),
    "a column fewer": sized(b'"n"\n'),
    "rows unlike each other": sized(ROW + b'"s"\n'),
    "bytes that are no UTF-8": sized(b'"n","\xff\xfe"\n'),
    "half a character": sized(b'"n","1234\xc3"\n'),
    "a surrogate": sized(b'"n","\xed\xa0\x80"\n'),
    "a zero byte": sized(b'"n","a\0b"\n'),
    "no rows": sized(b""),
    **{f"a size of {size}": sized(ROW, size) for size in (-1, 0, 3, 10**6, 2**63, 10**400)},
    "no size": ROW,
    "a number of rows": b"7",
}


def arrow(make, compression=None):
    """Rows in Arrow's own files, which can crash its reader."""
    table, sink = pa.table({"code": ["n"], "title": ["north"]}), pa.BufferOutputStream()
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


NAMES = [
    "../../etc/passwd", "/etc/passwd", "arrays/../x.npy", "arrays/00.npy", "arrays/-1.npy",
    "arrays/1.npy ", "ARRAYS/0.npy", "x", "arrays/0.npy\0", "arrays/999.npy", "public/0.arrow",
    "public/0.csv/", "arrays/١.npy", "ddl/post.sql.exe", "header.json/",
]  # fmt: skip
TAKEN = ["header.json", "arrays/0.npy", "ddl/pre.sql"]
#: What a file is, how it is written from the members of an honest model, and what is said of it.
REFUSED = {
    **{f"a member named {name!r}": (with_member(name), "") for name in NAMES},
    **{f"{name} twice": (with_member(name), "twice") for name in TAKEN},
    **{
        f"{name} of another hash": (with_hash(name, True), f"{name} does not match its hash")
        for name in ("arrays/0.npy", "ddl/pre.sql", "public/0.csv")
    },
    "a member without a hash": (with_hash("ddl/pre.sql", False), "not those of its"),
    **{
        f"{name} of 40 MiB": (of_forty_mebibytes(name), "more than 33,554,432 bytes")
        for name in ("header.json", "ddl/pre.sql", "ddl/post.sql")
    },
    **{
        f"{share} of a file": (cut(share), r"not a readable model .*Fit it again")
        for share in (0.0, 0.01, 0.5, 0.99)
    },
    "a header longer than it says": (with_field(24, "<L", 10, b"header.json"), ""),
    "a size of 4 GiB": (with_field(24, "<L", 2**32 - 2), ""),
    "a size of nothing": (with_field(24, "<L", 0), ""),
    "three packed bytes": (with_field(20, "<L", 3), ""),
    "another compression": (with_field(10, "<H", 14), ""),
    "an encrypted member": (with_field(8, "<H", 1), ""),
    **{
        f"{count} members, {'wide' if wide else 'short'}": (
            of_many_members(count, wide), "more than 65,536 members")
        for count in (2**16 + 1, 10**6) for wide in (False, True)
    },
    "a comment behind the archive": (with_a_comment, ""),
    **{f"an array: {what}": (with_array(data), "") for what, data in ARRAYS.items()},
    **{f"public rows: {what}": (with_rows(data), "") for what, data in TABLES.items()},
    "an Arrow file": (with_rows(arrow(pa.ipc.new_file)), ""),
    "an Arrow stream": (with_rows(arrow(pa.ipc.new_stream)), ""),
    "a packed Arrow stream": (with_rows(arrow(pa.ipc.new_stream, "zstd")), ""),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", REFUSED)
def test_load_of_a_file_that_no_tool_writes_is_refused(model, tmp_path, case):
    """And takes no memory for a member that is too large."""
    write, said = REFUSED[case]
    write(tmp_path / "m", model_files.members(model))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ModelError, match=said or None) as caught:
        Model.load(tmp_path / "m")
    assert caught.value.exit_code == 2
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert "MiB" not in case or grown < 20 * 1024


def test_load_of_no_file_or_too_large_a_one_is_refused(tmp_path, model, monkeypatch):
    for path in (tmp_path, "/dev/null"):
        with pytest.raises(ModelError):
            Model.load(path)
    # Many members of a permitted size: their sum is capped.
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    with pytest.raises(ModelError, match="unpacks to more than 1,000 bytes"):
        Model.load(model)
    # Numbers of 16 bits are used in 64.
    with_array(archive.array_bytes(np.zeros(10**6, np.float16)))(
        tmp_path / "m", model_files.members(model)
    )
    monkeypatch.setattr(archive, "MAX_BYTES", 4 * 10**6)
    with pytest.raises(ModelError, match="unpacks to more than 4,000,000 bytes"):
        Model.load(tmp_path / "m")


@pytest.mark.parametrize("synthesizer", ["independent", "privbench"])
def test_a_model_of_the_earlier_version_gives_the_same_rows(honest, tmp_path, synthesizer):
    """Its arrays have 64 bits, of which half or a quarter hold all that is used."""
    parts, head = model_files.parts_of(honest[synthesizer])
    places = [name for name in parts if name.startswith("arrays/")]
    old = {place: archive.array_bytes(wide(archive.read_array(parts[place]))) for place in places}
    assert all(len(parts[place]) <= len(data) for place, data in old.items())
    model_files.write(tmp_path / "m", {**parts, **old}, {**head, "version": 9})
    for number, path in enumerate((honest[synthesizer], tmp_path / "m")):
        pipeline.sample(path, tmp_path / str(number), seed=1)
    now, before = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "01"
    )
    assert now == before


@pytest.mark.parametrize("number", [np.nan, np.inf, -1.0, 1e308])
@pytest.mark.parametrize("synthesizer", ["independent", "privbench"])
def test_sample_of_odd_weights_is_refused_or_sound(honest, tmp_path, synthesizer, number):
    parts, head = model_files.parts_of(honest[synthesizer])
    # The last array of each kind: tables are read alike.
    last = {name.rsplit("/")[-1]: f"arrays/{at}.npy" for at, name in enumerate(head["arrays"])}
    for member in last.values():
        array = archive.read_array(parts[member]).copy()
        if array.dtype.kind == "f" and array.size:
            with np.errstate(over="ignore"):
                array[-1] = number
            forged = {**parts, member: archive.array_bytes(array)}
            with contextlib.suppress(UsageError):
                path = model_files.write(tmp_path / "m", forged, head)
                pipeline.sample(path, tmp_path / member.replace("/", "_"), seed=1)


def test_load_of_an_honest_row_reads_it(model, tmp_path):
    """The row that the attacks change is one."""
    with_rows(sized(b'"n",""\n'))(tmp_path / "m", model_files.members(model))
    rows = Model.load(tmp_path / "m").public["public.region"]
    assert rows.to_pylist() == [{"code": "n", "title": ""}]


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(st.lists(st.tuples(st.none() | texts, st.none() | texts), max_size=20), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_read_table_gives_texts_back(rows, cut):
    """NULL, the empty text, slices and chunks are what they were."""
    columns = {name: pa.array([row[k] for row in rows], pa.string()) for k, name in enumerate("ab")}
    table = pa.table(columns)
    table = pa.concat_tables([table.slice(cut), table])
    assert archive.read_table(archive.table_bytes(table), ["a", "b"]).equals(table)


@pytest.mark.parametrize("rows", [b"1099511627776", b"-1", b"", b"1e3", b"9" * 5000, b"\xff"])
def test_read_table_without_columns_is_capped(rows):
    with pytest.raises((ModelError, ValueError)):
        archive.read_table(rows, [])
    table = pa.Table.from_struct_array(pa.nulls(3, pa.struct([])))
    assert archive.read_table(archive.table_bytes(table), []).num_rows == 3


def test_read_table_of_many_short_parts_is_refused():
    with pytest.raises(ModelError, match="more parts than rows need"):
        archive.read_table(b"1\n\n" * 1_000_000, ["a"])


MARKS = ["=cmd|' /C calc'!A0", "a\r\n1,2", '"', "\\.", "\\N", "x" * 100_000, "\ufeff", "\u2028",
         "'; DROP"]  # fmt: skip


def test_sample_of_values_with_marks_quotes_them(model, tmp_path):
    """Marks of CSV and COPY."""
    table = pa.table({"code": [*map(str, range(len(MARKS)))], "title": MARKS})
    with_rows(archive.table_bytes(table))(tmp_path / "m", model_files.members(model))
    pipeline.sample(tmp_path / "m", tmp_path / "out")
    csv.field_size_limit(10**7)
    with (tmp_path / "out" / "public.region.csv").open(encoding="utf-8", newline="") as file:
        assert [row["title"] for row in csv.DictReader(file)] == MARKS


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
    assert json.loads(model_files.members(model)["header.json"])["version"] == 10

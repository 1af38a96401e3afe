"""The journal's file: what is sound is read, what is torn is cut off, other files are refused."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nearfar import records
from nearfar.records import KEY_BYTES, Records

KEYS = [bytes([number]) * KEY_BYTES for number in range(3)]
ITEMS = [(1.5, np.arange(3.0)), (np.eye(2, dtype=np.float32), True, -7), (), (np.zeros((0, 4)),)]
MAGIC = records._MAGIC


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def write(path):
    """Make a file of two sections; return where each record ends."""
    file, ends = Records(path), []
    for key in KEYS[:2]:
        section = file.section(key)
        for label, items in enumerate(ITEMS):
            file.append(section, label, items)
            ends.append(file._end + len(file._pending))
    file.close()
    return ends


def read(path):
    """All that can be read, by section."""
    file = Records(path)
    try:
        return [
            [file.read(number, k) for k in range(file.count(number))]
            for number in range(len(file._places))
        ]
    finally:
        file.close()


def flat(section):
    return [(label, [np.asarray(item).tobytes() for item in items]) for label, items in section]


def is_beginning(found, whole):
    return all(flat(f) == flat(w)[: len(f)] for f, w in zip(found, whole, strict=False))


def goes_on(path):
    """Whether a section can be added to, and is there afterwards."""
    file = Records(path)
    section = file.section(KEYS[2])
    file.append(section, 9, (2.5,))
    file.close()
    return read(path)[section] == [(9, (2.5,))]


def test_all_is_read_again(path):
    write(path)
    first, second = read(path)
    assert flat(first) == flat(second) == flat(enumerate(ITEMS))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from("dfqI?").flatmap(
        lambda code: arrays.arrays(code, arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
    ),
    st.sampled_from("CF"),
)
def test_arrays_keep_type_shape_order_and_bits(tmp_path_factory, values, order):
    values = np.array(values, order=order)
    file = Records(tmp_path_factory.mktemp("file") / "file")
    file.append(file.section(KEYS[0]), 0, (values,))
    _, (found,) = file.read(0, 0)
    file.close()
    np.testing.assert_array_equal(found, values)
    if values.ndim:
        assert found.tobytes() == values.tobytes()
        assert (found.dtype, found.shape) == (values.dtype, values.shape)
        assert found.flags.c_contiguous == values.flags.c_contiguous
        assert found.flags.f_contiguous == values.flags.f_contiguous
        assert found.flags.writeable
        assert found.flags.owndata


@pytest.mark.parametrize("item", [np.zeros((4, 4))[::2, ::2], "text", None, 1j, np.zeros(1, "f2")])
def test_what_cannot_be_recorded(path, item):
    file = Records(path)
    section = file.section(KEYS[0])
    with pytest.raises(TypeError, match="Not to be recorded"):
        file.append(section, 0, (item,))
    file.close()
    assert read(path) == [[]]


def test_torn_at_every_byte(path):
    ends = write(path)
    whole, content = read(path), path.read_bytes()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        found = read(path)
        assert is_beginning(found, whole)
        assert sum(map(len, found)) == sum(end <= size for end in ends)
        assert goes_on(path)


def test_every_byte_flipped(path):
    ends = write(path)
    whole, content = read(path), path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x41]) + content[place + 1 :])
        if place < len(MAGIC):
            with pytest.raises(ValueError, match="left as it is"):
                read(path)
            continue
        found = read(path)
        assert is_beginning(found, whole)
        assert sum(map(len, found)) == sum(end <= place for end in ends)
        assert goes_on(path)


@pytest.mark.parametrize(
    "content",
    [b"x", b"\x93NUMPY\x01\x00", b"nearfar journal 2\n", b"nearfar", bytes(100), b"{}" * 1000],
    ids=["short", "npy", "newer", "part", "zeros", "text"],
)
def test_other_files_are_left_as_they_are(path, content):
    path.write_bytes(content)
    if MAGIC.startswith(content):
        assert read(path) == []
        return
    kind = "another version" if content.startswith(b"nearfar") else "not a journal"
    with pytest.raises(ValueError, match=kind) as error:
        read(path)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == content


def test_folders(tmp_path):
    with pytest.raises(IsADirectoryError):
        Records(tmp_path)
    with pytest.raises(FileNotFoundError):
        Records(tmp_path / "none" / "file")


def head(section, length, crc=0):
    numbers = struct.pack("<IIQI", section, 0, length, crc)
    return numbers + struct.pack("<I", zlib.crc32(numbers))


@pytest.mark.parametrize("length", [1, 1 << 20, 1 << 40, (1 << 64) - 1])
@pytest.mark.parametrize("section", [0, 1, 2, (1 << 32) - 1])
def test_lengths_beyond_the_file_and_unknown_sections(path, section, length):
    write(path)
    whole = read(path)
    with path.open("ab") as file:
        file.write(head(section, length))
    assert [flat(s) for s in read(path)] == [flat(s) for s in whole]
    assert goes_on(path)


@pytest.mark.parametrize(
    "payload",
    [
        b"d",
        b"z\x00" + bytes(8),
        b"d\x00" + bytes(7),
        b"d\x7f" + bytes(8),
        struct.pack("<cBQQ", b"d", 2, 1 << 62, 1 << 62),
        struct.pack("<cBQ", b"d", 1, 1 << 40) + bytes(8),
        b"\xff\x01" + bytes(8),
    ],
)
def test_payloads_that_make_no_sense(path, payload):
    Records(path).close()
    with path.open("ab") as file:
        file.write(head(0, KEY_BYTES, zlib.crc32(KEYS[0])) + KEYS[0])
        file.write(head(0, len(payload), zlib.crc32(payload)) + payload)
    with pytest.raises(ValueError, match="a record makes no sense"):
        read(path)


def test_flushed_once_a_second_or_when_there_is_much(path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(records.time, "monotonic", lambda: now[0])
    file = Records(path)
    section = file.section(KEYS[0])
    file.append(section, 0, (1.0,))
    assert path.stat().st_size == len(MAGIC)
    now[0] += 1.1
    file.append(section, 1, (1.0,))
    assert path.stat().st_size == file._end > len(MAGIC)
    file.append(section, 2, (np.zeros(1 << 18),))
    assert path.stat().st_size == file._end > 1 << 21
    assert not file._pending
    file.close()
    with pytest.raises(ValueError, match="is closed"):
        file.append(section, 3, (1.0,))

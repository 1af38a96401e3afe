import pickle
import tempfile

import numpy as np
import pytest

from nearfar.numerics.tiled_edges import Scratch


def test_arrays_are_read_and_written_by_slices():
    scratch = Scratch()
    first, second = scratch.reserve(5, np.int32), scratch.store(np.arange(4.0))
    first[0:2], first[2:5] = np.array([7, 8]), np.array([1, 2, 3])
    np.testing.assert_array_equal(first[:], [7, 8, 1, 2, 3])
    np.testing.assert_array_equal(first[1:3], [8, 1])
    np.testing.assert_array_equal(second[:], np.arange(4.0))
    assert (first.dtype, len(first), first.nbytes) == (np.int32, 5, 20)


def test_empty_arrays():
    stored = Scratch().store(np.empty(0))
    assert len(stored[:]) == len(stored) == 0


def test_they_are_pickled_as_arrays():
    found = pickle.loads(pickle.dumps(Scratch().store(np.arange(3))))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, [0, 1, 2])


def test_a_full_disk_names_the_folder():
    resource = pytest.importorskip("resource")
    scratch = Scratch()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        with pytest.raises(OSError, match=r"TMPDIR") as caught:
            scratch.store(np.zeros(10_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert caught.value.filename.startswith(tempfile.gettempdir())


def test_a_file_that_was_cut_off_is_noticed():
    scratch = Scratch()
    stored = scratch.store(np.arange(1000.0))
    scratch._file.truncate(100)
    with pytest.raises(OSError, match="shorter than what was written"):
        stored[:]

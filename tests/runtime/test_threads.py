from __future__ import annotations

import contextvars
import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from nearfar.runtime import threads
from nearfar.runtime.progress import OutOfTimeError, check_time, deadline
from nearfar.runtime.threads import (
    Threads,
    limited_threads,
    single_threaded_libraries,
    worker_context,
)

pytestmark = pytest.mark.usefixtures("two_blas_threads")


def uses_openmp(library):
    return "openmp" in (library["user_api"], library.get("threading_layer"))


def blas_threads():
    """Numbers of threads of BLAS libraries, except those that use OpenMP."""
    return [lib["num_threads"] for lib in threadpool_info() if not uses_openmp(lib)]


def openmp_threads():
    return [lib["num_threads"] for lib in threadpool_info() if uses_openmp(lib)]


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(threads, "_n_cores", lambda: 4)


@pytest.mark.usefixtures("four_cores")
@pytest.mark.parametrize(
    ("n_jobs", "number"), [(None, 4), (1, 1), (3, 3), (9, 9), (-1, 4), (-2, 3), (-4, 1), (-9, 1)]
)
def test_threads_are_limited_in_the_block(n_jobs, number):
    before = blas_threads()
    with limited_threads(n_jobs):
        assert Threads().n_threads == number
        assert set(blas_threads()) == {1}
    assert Threads().n_threads == 4
    assert blas_threads() == before


@pytest.mark.usefixtures("four_cores")
def test_limits_are_nested_and_survive_errors():
    before = blas_threads()
    with limited_threads(2):
        with pytest.raises(ZeroDivisionError), limited_threads(1):
            _ = 1 / 0
        assert Threads().n_threads == 2
        assert set(blas_threads()) == {1}
        with limited_threads(None):
            assert Threads().n_threads == 2
    assert Threads().n_threads == 4
    assert blas_threads() == before


@pytest.mark.usefixtures("four_cores")
def test_other_threads_have_their_own_limit():
    with ThreadPoolExecutor(1) as pool, limited_threads(1):
        assert pool.submit(lambda: Threads().n_threads).result() == 4
        copied = contextvars.copy_context()
        assert pool.submit(copied.run, lambda: Threads().n_threads).result() == 1


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (3, 3), (10, 3), (10, 100)])
def test_slices_come_in_order_whatever_the_threads(n, size, n_jobs):
    values = np.random.default_rng(0).standard_normal(n)
    with limited_threads(n_jobs):
        parts = list(Threads().map(lambda part: values[part], n, size))
    assert [len(part) for part in parts] == [len(values[i : i + size]) for i in range(0, n, size)]
    np.testing.assert_array_equal(np.concatenate([[], *parts]), values)


def test_several_threads_work_at_once():
    """Each slice waits for the other one."""
    barrier = Barrier(2)
    with limited_threads(2):
        assert len(list(Threads().map(lambda part: barrier.wait(timeout=60), 2, 1))) == 2


def test_threads_know_the_deadline():
    now = iter(range(100))

    def work(part):
        check_time()

    with limited_threads(2), deadline(0.5, clock=lambda: next(now)), pytest.raises(OutOfTimeError):
        list(Threads().map(work, 4, 1))


def test_child_processes_use_one_thread(monkeypatch):
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "a parent")
    assert Threads().n_threads == 1
    with limited_threads(2):
        assert Threads().n_threads == 2


def test_blas_is_restored_whichever_thread_leaves_last():
    before = blas_threads()
    entered, leave = Barrier(2), Barrier(2)

    def stay():
        with single_threaded_libraries():
            entered.wait(timeout=60)
            leave.wait(timeout=60)

    with ThreadPoolExecutor(1) as pool:
        with single_threaded_libraries():
            other = pool.submit(stay)
            entered.wait(timeout=60)
        assert set(blas_threads()) == {1}
        leave.wait(timeout=60)
        other.result()
    assert blas_threads() == before


def test_openmp_is_restored_in_each_thread():
    """Its number of threads is one of the thread; the BLAS of faiss uses it too."""
    pytest.importorskip("faiss")
    import sklearn.cluster  # noqa: F401

    single_threaded = threads._SingleThreadedLibraries()
    before = openmp_threads()
    entered, leave = Barrier(2), Barrier(2)

    def stay():
        with single_threaded():
            entered.wait(timeout=60)
            leave.wait(timeout=60)
            return openmp_threads()

    with ThreadPoolExecutor(1) as pool:
        with single_threaded():
            other = pool.submit(stay)
            entered.wait(timeout=60)
            assert set(openmp_threads()) == {1}
        leave.wait(timeout=60)
        assert set(other.result()) == {1}
    assert openmp_threads() == before


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("n", [1, 4])
def test_blas_has_one_thread_in_each_slice(n, n_jobs):
    before = blas_threads()
    with limited_threads(n_jobs):
        workers = Threads()
    assert list(workers.map(lambda part: set(blas_threads()), n, 1)) == [{1}] * n
    assert blas_threads() == before


def test_work_in_slices_uses_one_thread():
    with limited_threads(3):
        workers = Threads()
        assert list(workers.map(lambda part: Threads().n_threads, 4, 1)) == [1] * 4
        assert worker_context().run(lambda: Threads().n_threads) == 1
        assert Threads().n_threads == 3


class Library:
    """A BLAS library with a number of threads of its own."""

    user_api = "blas"

    def __init__(self, name, number):
        self.filepath, self.number = name, number

    def get_num_threads(self):
        return self.number

    def set_num_threads(self, number):
        self.number = number


def test_libraries_that_are_loaded_later_are_limited_too(monkeypatch):
    """SciPy has a BLAS library besides NumPy's, which is loaded when a module needs it."""
    first, second, third = (Library(name, 8) for name in ("numpy", "scipy", "other"))
    loaded = [first]

    class Controller:
        def __init__(self):
            self.lib_controllers = list(loaded)

    def import_with(library):
        loaded.insert(0, library)
        monkeypatch.setitem(sys.modules, f"module_of_{library.filepath}", sys)

    monkeypatch.setattr(threads, "ThreadpoolController", Controller)
    single_threaded = threads._SingleThreadedLibraries()
    with single_threaded():
        assert first.number == 1
    import_with(second)
    with single_threaded():
        assert (first.number, second.number) == (1, 1)
        import_with(third)
        with single_threaded():
            assert (first.number, second.number, third.number) == (1, 1, 1)
        assert (first.number, second.number, third.number) == (1, 1, 1)
    assert (first.number, second.number, third.number) == (8, 8, 8)

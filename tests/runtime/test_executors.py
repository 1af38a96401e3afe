import threading

import pytest

from nearfar import executor
from nearfar.runtime import threads
from nearfar.runtime.threads import (
    ThreadExecutor,
    chosen_executor,
    current_executor,
    limited_threads,
)


def test_results_come_in_order():
    with limited_threads(4):
        found = list(ThreadExecutor().map(pow, [(number, 2) for number in range(50)]))
    assert found == [number**2 for number in range(50)]


def test_tasks_run_at_once_unless_they_need_much_memory():
    def count():
        with lock:
            inside.append(len(inside))
        together.wait()
        return True

    lock, inside, together = threading.Lock(), [], threading.Barrier(3)
    with limited_threads(3):
        assert all(ThreadExecutor().map(count, [()] * 3))
    seen = []
    with limited_threads(3):
        list(
            ThreadExecutor().map(
                lambda: seen.append(threading.current_thread()), [()] * 9, memory=threads._MEMORY
            )
        )
    assert set(seen) == {threading.current_thread()}


def test_errors_are_raised():
    with limited_threads(2), pytest.raises(ZeroDivisionError):
        list(ThreadExecutor().map(divmod, [(1, 1), (1, 0), (2, 1)]))
    assert list(ThreadExecutor().map(divmod, [])) == []


def test_the_chosen_executor_is_used_inside_only():
    own = ThreadExecutor()
    assert chosen_executor() is None
    with executor(own):
        assert current_executor() is own
        with executor(ThreadExecutor()):
            assert current_executor() is not own
        assert current_executor() is own
    assert chosen_executor() is None
    assert isinstance(current_executor(), ThreadExecutor)


@pytest.mark.parametrize("wrong", [None, 4, "cluster", ThreadExecutor])
def test_what_is_no_executor(wrong):
    with pytest.raises(TypeError, match=r"dask\.distributed\.Client"), executor(wrong):
        pass

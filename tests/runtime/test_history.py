from __future__ import annotations

from nearfar.runtime import history as history_module
from nearfar.runtime.history import History, Iteration, map_iterations


def solver(number=3, reason="converged"):
    for i in range(number):
        yield Iteration(float(-i), eigenvalue=i, gap=2.0 * i, step=0.5, payload=f"model {i}")
    return reason


def test_iterations_are_kept_in_order_with_the_reason():
    history = History()
    seen = list(history.record(solver()))
    assert len(history) == len(seen) == 3
    assert history.stopped == "converged"
    assert history.objective.tolist() == [0.0, -1.0, -2.0]
    assert history.eigenvalue.tolist() == [0.0, 1.0, 2.0]
    assert history.gap.tolist() == [0.0, 2.0, 4.0]
    assert history.step.tolist() == [0.5] * 3
    assert [iteration.objective for iteration in history] == history.objective.tolist()
    assert repr(history) == "<History: 3 iterations, converged>"


def test_only_the_last_model_is_kept():
    history = History()
    for number, iteration in enumerate(history.record(solver())):
        assert iteration.payload == f"model {number}"
        assert [kept.payload for kept in history] == [None] * number + [iteration.payload]


def test_all_payloads_are_kept_on_demand():
    history = History(keeps_payloads=True)
    list(history.record(solver()))
    assert [kept.payload for kept in history] == ["model 0", "model 1", "model 2"]
    assert history[:2].keeps_payloads


def test_seconds_are_those_of_the_solver_alone(monkeypatch):
    """The solver takes 1, 2 and 3 seconds, and what consumes it 10 each."""
    now = 0.0
    monkeypatch.setattr(history_module.time, "perf_counter", lambda: now)

    def slow():
        nonlocal now
        for seconds in (1.0, 2.0, 3.0):
            now += seconds
            yield Iteration(0.0)
        return ""

    history = History()
    for _ in history.record(slow()):
        now += 10.0
    assert history.seconds.tolist() == [1.0, 2.0, 3.0]


def test_slices_are_histories():
    history = History()
    list(history.record(solver(5, "max_iter")))
    part = history[1:3]
    assert isinstance(part, History)
    assert part.objective.tolist() == [-1.0, -2.0]
    assert part.stopped == "max_iter"
    assert history[-1].objective == -4.0


def test_mapped_steps_pass_on_the_reason_and_are_closed():
    closed = []

    def steps():
        try:
            yield from (1.0, 2.0)
        finally:
            closed.append(True)
        return "stalled"

    history = History()
    list(history.record(map_iterations(steps(), Iteration)))
    assert history.objective.tolist() == [1.0, 2.0]
    assert history.stopped == "stalled"
    mapped = map_iterations(steps(), Iteration)
    next(mapped)
    mapped.close()
    assert closed == [True, True]

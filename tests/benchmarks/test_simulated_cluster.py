"""The model of a cluster against what can be computed by hand."""

from __future__ import annotations

import pytest

from simulated_cluster import (
    Cluster,
    Constants,
    Stage,
    Task,
    boosting_iteration,
    client_bytes,
    traffic,
)

EQUAL = [Stage([Task(1.0)] * 8)]


@pytest.mark.parametrize(
    ("workers", "cores", "expected"),
    [(1, 1, 8), (2, 2, 4), (3, 3, 3), (4, 2, 4), (8, 2, 4), (100, 100, 1), (2, 1, 8)],
)
def test_equal_tasks(workers, cores, expected):
    assert Cluster(workers, cores).seconds(EQUAL) == pytest.approx(expected)


def test_workers_take_the_next_task():
    tasks = [Task(3.0), Task(1.0), Task(1.0), Task(1.0), Task(2.0)]
    assert Cluster(2, 2).seconds([Stage(tasks)]) == pytest.approx(5.0)


def test_shared_cores_run_all_tasks_at_a_lower_rate():
    """Tasks of 1 s and 3 s on one core: both at half speed for 2 s, then one for 2 s."""
    assert Cluster(2, 1)._ends([0.0, 0.0], [1.0, 3.0]) == [
        (0, pytest.approx(2.0)),
        (1, pytest.approx(4.0)),
    ]


def test_the_link_carries_one_array_at_a_time():
    tasks = [Task(0.0, sent=10.0, received=20.0)] * 4
    assert Cluster(4, 4, sending=10.0).seconds([Stage(tasks)]) == pytest.approx(4.0)
    assert Cluster(4, 4, receiving=10.0).seconds([Stage(tasks)]) == pytest.approx(8.0)
    assert traffic([Stage(tasks)]) == 120.0


def test_overhead_latency_and_the_client():
    stages = [Stage([Task(1.0)] * 4, serial=5.0), Stage((), serial=2.0)]
    found = Cluster(4, 4, latency=0.5, overhead=0.1).seconds(stages)
    assert found == pytest.approx(0.4 + 1.0 + 0.5 + 5.0 + 2.0)


def test_an_iteration_does_the_work_of_the_formulas():
    n, D, m, edges = 1e7, 64, 3e7, 6e7
    constants = Constants(read=1e-9, edge=2e-10, project=3e-10, triplet=4e-8, pair=1e-10)
    scatter, products = boosting_iteration(n, D, m, edges, constants)
    bands = len(scatter.tasks)
    assert bands == 20
    reads = (bands + 1) / 2 * 4 * n * D * constants.read
    work = sum(task.seconds for task in scatter.tasks)
    assert work == pytest.approx(reads + constants.edge * edges * D)
    assert sum(task.seconds for task in products.tasks) == pytest.approx(constants.project * n * D)
    assert products.serial == pytest.approx(1.2)
    expected = 4 * (edges + n) + 8 * bands * D**2 + 4 * n + 4 * D * len(products.tasks)
    assert traffic([scatter, products]) == pytest.approx(expected)


def test_the_client_keeps_vectors_of_triplets_and_rows():
    assert client_bytes(1e6, 3e6) == 3e6 * 48 + 1e6 * 12

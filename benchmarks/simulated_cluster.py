"""A model of a cluster: how long stages of tasks take on some workers.

An iteration is a list of stages. In a stage the client sends tasks one after the other over its
link, workers run them in order, and results return over the link. Workers that share cores slow
each other down. After a stage the client computes on its own. All numbers are seconds and bytes;
nothing is random.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes
    ----------
    seconds : float
        What it takes on a core of its own.
    sent, received : float
        Bytes of its arguments and of its result.
    """

    seconds: float
    sent: float = 0.0
    received: float = 0.0


@dataclass(frozen=True)
class Stage:
    """Tasks that run side by side, and what the client does after them.

    Attributes
    ----------
    tasks : sequence of Task
    serial : float
        Seconds of the client.
    """

    tasks: Sequence[Task]
    serial: float = 0.0


@dataclass(frozen=True)
class Cluster:
    """Workers, and what connects them with the client.

    Attributes
    ----------
    workers : int
    cores : int
        Cores that the workers share.
    sending, receiving : float
        Bytes per second from the client to the workers, and back.
    latency : float
        Seconds from submitting a task to its result, if it does nothing.
    overhead : float
        Seconds of the scheduler for each task; tasks wait for each other there.
    """

    workers: int
    cores: int
    sending: float = math.inf
    receiving: float = math.inf
    latency: float = 0.0
    overhead: float = 0.0

    def seconds(self, stages: Sequence[Stage]) -> float:
        """Return the time of an iteration."""
        return sum(self._stage(stage.tasks) + stage.serial for stage in stages)

    def _stage(self, tasks: Sequence[Task]) -> float:
        if not tasks:
            return 0.0
        ready, now = [], 0.0
        for task in tasks:
            now += self.overhead + task.sent / self.sending
            ready.append(now)
        arrived = 0.0
        for number, end in self._ends(ready, [task.seconds for task in tasks]):
            arrived = max(arrived, end) + tasks[number].received / self.receiving
        return arrived + self.latency

    def _ends(self, ready: Sequence[float], work: Sequence[float]) -> list[tuple[int, float]]:
        """Return the numbers of tasks and when they end, in the order of their ends."""
        waiting = list(range(len(work)))[::-1]
        left: dict[int, float] = {}
        ends: list[tuple[int, float]] = []
        now = 0.0
        while waiting or left:
            while waiting and len(left) < self.workers and ready[waiting[-1]] <= now:
                number = waiting.pop()
                left[number] = work[number]
            rate = min(1.0, self.cores / len(left)) if left else 1.0
            step = min(left.values()) / rate if left else math.inf
            if waiting and len(left) < self.workers:
                step = min(step, ready[waiting[-1]] - now)
            now += step
            for number in left:
                left[number] -= step * rate
            for number in [k for k, rest in left.items() if rest <= 1e-12 * (1 + now)]:
                del left[number]
                ends.append((number, now))
        return ends


def traffic(stages: Sequence[Stage]) -> float:
    """Return the bytes that the network carries in an iteration, both ways."""
    return sum(task.sent + task.received for stage in stages for task in stage.tasks)


@dataclass(frozen=True)
class Constants:
    """Measured seconds for elementary operations on one core.

    Attributes
    ----------
    read : float
        For a byte of rows that is read.
    edge : float
        For an edge and a feature in A(u), with what is done for rows.
    project : float
        For a row and a feature in X v, reading included.
    triplet : float
        For a triplet in the client: loss, weights and line search.
    pair : float
        For a product in mining, as `search_cost` counts them.
    """

    read: float
    edge: float
    project: float
    triplet: float
    pair: float


def boosting_iteration(
    n: float,
    D: int,
    triplets: float,
    edges: float,
    constants: Constants,
    *,
    band_bytes: float = 2.0**27,
    task_bytes: float = 2.0**25,
) -> list[Stage]:
    """Return an iteration of BoostMetric on float32 rows that are not in memory.

    Parameters
    ----------
    n, D : number of rows and features
    triplets, edges : numbers of constraints and of distinct edges
    constants : Constants
    band_bytes, task_bytes : float
        Bytes of rows in a band of A(u), and in a task of X v.
    """
    size = 4.0 * n * D
    bands = max(8, math.ceil(size / band_bytes))
    scatter = [
        Task(
            constants.edge * edges * D / bands + constants.read * size * (bands - k) / bands,
            sent=4 * (edges + n) / bands,
            received=8 * D**2,
        )
        for k in range(bands)
    ]
    pieces = max(1, math.ceil(size / task_bytes))
    products = [
        Task(constants.project * n * D / pieces, sent=4 * D, received=4 * n / pieces)
        for _ in range(pieces)
    ]
    return [Stage(scatter), Stage(products, serial=constants.triplet * triplets)]


def client_bytes(n: float, triplets: float) -> float:
    """Return the memory that BoostMetric's client needs for its vectors, of float32 rows.

    For each triplet its three row numbers and six numbers of 4 bytes, for each row three of these.
    Edges are in a temporary file.
    """
    return triplets * (24 + 6 * 4) + n * 3 * 4

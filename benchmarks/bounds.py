"""How far learners are from the limits of the machine, and how their time grows.

    python benchmarks/bounds.py [--toy] [--out FILE] [--against FILE [FILE]]

Work is measured in multiples of what its products, its bytes and its exponentials take at least, at
speeds measured in the same run, beside it: float32 products (flop/s), copies (bytes/s, read and
written) and float32 exponentials (1/s), each on all cores that the process may use.

    triplet round        BoostMetric, an iteration on listed triplets: A(u) = X'(Laplacian X), its
                         leading eigenvector, and passes over edges and triplets
    all-triplets round   MetricBoost, an iteration of ten directions: all distances, an exponential
                         of each, and the product of the weights with X
    NCA gradient         value and gradient: the same
    LMNN iteration       X L', the gradient's product with X, and passes over target pairs
    AutoMetric           a whole fit, in units of the limit of one NCA gradient on all rows

Each is measured at a middle size, and at others in which only n, D or the number of classes
differs. The exponent of growth is the slope of the logarithms. Results are lines of JSON: the run
(commit, versions, threads, machine), measurements, and growth. ``--against OLD`` compares this run
with an earlier one; ``--against OLD NEW`` compares two files and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import nearfar
from nearfar import LMNN, AutoMetric, BoostMetric, MetricBoost, NearestTriplets
from nearfar.learners.boosting.triplet_operator import TripletOperator
from nearfar.learners.nca.soft_neighbors import SoftNeighbors
from nearfar.numerics.linear_algebra import product
from nearfar.runtime.threads import Threads
from protocol import Array, commit

Row = dict[str, Any]

RESULTS = Path(__file__).parent / "results/bounds.jsonl"
SIZES = ("n", "D", "classes")

_BLOCK = 1 << 18
_DOUBLE = 2
"""An operation in float64 counts as two in float32."""


@dataclass(frozen=True)
class Amount:
    """What work needs at least, or what the machine does in a second.

    Attributes
    ----------
    flops : float
        Additions and multiplications in float32 products.
    bytes : float
        Bytes read or written.
    exps : float
        Exponentials in float32.
    """

    flops: float = 0.0
    bytes: float = 0.0
    exps: float = 0.0

    def seconds(self, speed: Amount) -> float:
        """Return the time that work of this amount takes at a speed, one kind after the other."""
        return sum(need / most for need, most in zip(astuple(self), astuple(speed), strict=True))


@dataclass(frozen=True)
class Size:
    """A problem: rows, features and classes."""

    n: int
    D: int
    classes: int

    def data(self) -> tuple[Array, Array]:
        """Return overlapping classes, in float32."""
        rng = np.random.default_rng(0)
        y = np.arange(self.n) % self.classes
        centers = rng.standard_normal((self.classes, self.D))
        X = centers[y] + 2.0 * rng.standard_normal((self.n, self.D))
        return X.astype(np.float32), y


@dataclass(frozen=True)
class How:
    """How to measure.

    Attributes
    ----------
    width : int
        The machine is measured with arrays of four times this squared.
    repeats : int
    budget : float
        Seconds for a fit of AutoMetric.
    """

    width: int = 1024
    repeats: int = 5
    budget: float = 60.0


@dataclass(frozen=True)
class Time:
    """Seconds by the clock and of the processor."""

    seconds: float
    cpu_seconds: float


def shortest(work: Callable[[], object], repeats: int) -> Time:
    """Return the shortest time of some calls: other processes only make them longer."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter(), time.process_time()
        work()
        times.append(Time(time.perf_counter() - start[0], time.process_time() - start[1]))
    return min(times, key=lambda found: found.seconds)


def speed(width: int, repeats: int = 3) -> Amount:
    """Measure the machine."""
    A = np.full((4 * width, width), 0.5, dtype=np.float32)
    B, out = A[:width].copy(), np.empty_like(A).ravel()
    flat, threads = A.ravel(), Threads()

    def pass_over(work: Callable[[Array, Array], object]) -> float:
        def block(part: slice) -> None:
            work(flat[part], out[part])

        def run() -> None:
            for _ in threads.map(block, len(flat), _BLOCK):
                pass

        return shortest(run, repeats).seconds

    products = shortest(lambda: product(A, B), repeats).seconds
    copies = pass_over(lambda source, target: np.copyto(target, source))
    exps = pass_over(lambda source, target: np.exp(source, out=target))
    return Amount(2 * len(A) * width * width / products, 2 * flat.nbytes / copies, len(flat) / exps)


Measured = tuple[Amount, Callable[[], Time]]
"""What work needs, and a function that measures it."""


def iterations(learner: Any, X: Array, y: Any) -> Callable[[], Time]:
    """Measure the shortest iteration of a fit; the first one also prepares."""

    def measure() -> Time:
        start = time.process_time(), time.perf_counter()
        learner.fit(X, y)
        share = (time.process_time() - start[0]) / (time.perf_counter() - start[1])
        seconds = float(np.min(learner.history_.seconds[1:]))
        return Time(seconds, share * seconds)

    return measure


def triplet_round(size: Size, how: How) -> Measured:
    """An iteration of BoostMetric on the nearest triplets."""
    X, y = size.data()
    triplets = NearestTriplets()(X, y)
    stored = TripletOperator(X, triplets).edges.n_stored
    need = Amount(
        flops=2 * size.n * size.D**2 + _DOUBLE * 4 / 3 * size.D**3,
        # The rows of a sparse product; near, far, margin, loss and weight of each triplet.
        bytes=4 * stored * size.D + 8 * 5 * len(triplets),
    )
    learner = BoostMetric(max_iter=2 + how.repeats, tol=0.0, validation_fraction=None, scale=None)
    return need, iterations(learner, X, triplets)


def all_triplets_round(size: Size, how: How) -> Measured:
    """An iteration of MetricBoost with ten directions."""
    X, y = size.data()
    number = 10 * (1 + how.repeats)
    learner = MetricBoost(
        block_size=10, max_iter=number, tol=0.0, validation_fraction=None, scale=None
    )
    return all_pairs(size), iterations(learner, X, y)


def nca_gradient(size: Size, how: How) -> Measured:
    """Value and gradient of a square map."""
    X, y = size.data()
    points = SoftNeighbors(X / X.std(axis=0), y)
    L = np.eye(size.D) / size.D**0.25

    def shares(_: slice, log_p: Array) -> tuple[Array, Array]:
        p = np.exp(log_p)
        return p, p

    return all_pairs(size), lambda: shortest(lambda: points.evaluate([L], shares), how.repeats)


def lmnn_iteration(size: Size, how: How) -> Measured:
    """An iteration of LMNN, between searches for impostors."""
    X, y = size.data()
    learner = LMNN(max_iter=6 + how.repeats, tol=0.0, validation_fraction=None, scale=None)
    need = Amount(
        flops=4 * size.n * size.D**2 + _DOUBLE * 2 * size.D**3,
        # Both ends of each target pair, for distances and for the gradient.
        bytes=2 * 2 * 4 * size.D * learner.n_neighbors * size.n,
    )
    return need, iterations(learner, X, y)


def auto_metric(size: Size, how: How) -> Measured:
    """A whole fit of AutoMetric; once, because it is long."""
    X, y = size.data()
    return all_pairs(size), lambda: shortest(lambda: AutoMetric(budget=how.budget).fit(X, y), 1)


def all_pairs(size: Size) -> Amount:
    """All distances, an exponential of each, and the product of n x n weights with X."""
    return Amount(flops=4 * size.n**2 * size.D, exps=size.n**2)


WORK: dict[str, Callable[[Size, How], Measured]] = {
    "triplet round": triplet_round,
    "all-triplets round": all_triplets_round,
    "NCA gradient": nca_gradient,
    "LMNN iteration": lmnn_iteration,
    "AutoMetric": auto_metric,
}


def sizes_around(middle: Size, factors: Sequence[float]) -> dict[str, list[Size]]:
    """Return sizes in which one number is multiplied by each factor, by the name of the number."""
    return {
        name: [replace(middle, **{name: round(value * factor)}) for factor in factors]
        for name, value in asdict(middle).items()
    }


def growth(values: Iterable[float], times: Iterable[float]) -> float:
    """Return the exponent with which times grow: the slope of their logarithms."""
    return float(np.polyfit(np.log(list(values)), np.log(list(times)), 1)[0])


def measure(name: str, size: Size, how: How) -> Row:
    """Measure work of a size between two measurements of the machine."""
    need, run = WORK[name](size, how)
    before = speed(how.width)
    taken = run()
    after = speed(how.width)
    found = Amount(*np.maximum(astuple(before), astuple(after)).tolist())
    limit = need.seconds(found)
    row = {"what": "work", "work": name, **asdict(size), **asdict(taken), "limit": limit}
    row |= {"multiple": taken.seconds / limit, "speed": asdict(found)}
    print(
        f"{name:20} n={size.n:<6} D={size.D:<4} classes={size.classes:<4} "
        f"{1e3 * taken.seconds:9.2f} ms {row['multiple']:9.1f} times the limit",
        flush=True,
    )
    return row


def measure_all(middles: dict[str, Size], factors: Sequence[float], how: How) -> list[Row]:
    """Measure each work at its sizes, and how it grows."""
    rows: list[Row] = []
    for name, middle in middles.items():
        known: dict[Size, Row] = {}
        for varied, sizes in sizes_around(middle, factors).items():
            for size in sizes:
                if size not in known:
                    known[size] = measure(name, size, how)
            values = [getattr(size, varied) for size in sizes]
            exponent = growth(values, [known[size]["seconds"] for size in sizes])
            of_limit = growth(values, [known[size]["limit"] for size in sizes])
            rows.append({"what": "growth", "work": name, "in": varied, "exponent": exponent})
            rows[-1]["limit_exponent"] = of_limit
            print(f"{name:20} grows with {varied}^{exponent:.2f}, its limit with ^{of_limit:.2f}")
        rows += known.values()
    return rows


def description(toy: bool) -> Row:
    """Describe the run."""
    modules = (np, scipy, sklearn, nearfar)
    return {
        "what": "run",
        "toy": toy,
        "commit": commit(),
        "versions": {"python": platform.python_version()}
        | {module.__name__: module.__version__ for module in modules},
        "threads": Threads().n_threads,
        "libraries": [
            {key: library.get(key) for key in ("internal_api", "version", "architecture")}
            for library in threadpool_info()
        ],
        "machine": {
            "system": platform.platform(),
            "processor": processor(),
            "cores": os.cpu_count(),
            "usable_cores": joblib.cpu_count(),
        },
    }


def processor() -> str:
    """Return the name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def compared(old: list[Row], new: list[Row]) -> str:
    """Return a table of ratios, new to old, of what both files have."""

    def by_key(rows: list[Row], what: str, *names: str) -> dict[tuple[Any, ...], Row]:
        return {tuple(row[name] for name in names): row for row in rows if row["what"] == what}

    runs = [next(row for row in rows if row["what"] == "run")["commit"] for rows in (old, new)]
    lines = [f"{runs[1][:12]} compared with {runs[0][:12]}; below 1 is faster", ""]
    lines.append(f"{'':20} {'n':>6} {'D':>4} {'classes':>7} {'time':>6} {'cpu':>6} {'multiple':>8}")
    names = ("work", "n", "D", "classes")
    before, after = (by_key(rows, "work", *names) for rows in (old, new))
    for key in (key for key in after if key in before):
        ratios = [
            after[key][name] / before[key][name] for name in ("seconds", "cpu_seconds", "multiple")
        ]
        work, n, D, classes = key
        lines.append(
            f"{work:20} {n:6} {D:4} {classes:7} {ratios[0]:6.2f} {ratios[1]:6.2f} {ratios[2]:8.2f}"
        )
    lines += ["", f"{'exponent':20} {'in':>7} {'old':>6} {'new':>6}"]
    before, after = (by_key(rows, "growth", "work", "in") for rows in (old, new))
    for key in (key for key in after if key in before):
        exponents = [round(rows[key]["exponent"], 2) + 0.0 for rows in (before, after)]
        lines.append(f"{key[0]:20} {key[1]:>7} {exponents[0]:6.2f} {exponents[1]:6.2f}")
    return "\n".join(lines)


def stored() -> list[Row]:
    """Read the raw results."""
    return read(RESULTS)


def table(rows: list[Row]) -> str:
    """Return the times of the middle sizes and how they grow, in Markdown."""
    growths = {(row["work"], row["in"]): row for row in rows if row["what"] == "growth"}
    lines = [
        "| | n | D | classes | seconds | multiple of the least | grows with n | D | classes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in dict.fromkeys(row["work"] for row in rows if row["what"] == "work"):
        mine = [row for row in rows if row["what"] == "work" and row["work"] == name]
        middle = {key: sorted(row[key] for row in mine)[len(mine) // 2] for key in SIZES}
        row = next(row for row in mine if all(row[key] == middle[key] for key in SIZES))
        powers = [f"{growths[name, key]['exponent']:.1f}" for key in SIZES]
        cells = [name, *(row[key] for key in SIZES), f"{row['seconds']:.2g}"]
        cells += [f"{row['multiple']:.1f}", *(f"^{power}" for power in powers)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def read(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--toy", action="store_true", help="a small run that shows it works")
    parser.add_argument("--out", type=Path, help="where results go, if not to results/bounds.jsonl")
    parser.add_argument("--against", type=Path, nargs="+", default=[], help="files to compare with")
    arguments = parser.parse_args()
    if len(arguments.against) > 2:
        parser.error("--against takes one file or two.")
    old = [read(path) for path in arguments.against]
    if len(old) == 2:
        print(compared(*old))
        return
    toy = arguments.toy
    middle, small = (
        (Size(150, 8, 3), Size(60, 4, 2)) if toy else (Size(2000, 64, 10), Size(400, 16, 4))
    )
    middles = {name: small if name == "AutoMetric" else middle for name in WORK}
    how = How(width=128, repeats=1, budget=0.2) if toy else How()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = measure_all(middles, (1, 1.5) if toy else (0.5, 1, 2), how)
    rows.insert(0, description(toy))
    out = arguments.out or (RESULTS.with_name("bounds_toy.jsonl") if toy else RESULTS)
    out.parent.mkdir(exist_ok=True)
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if old:
        print(compared(old[0], rows))


if __name__ == "__main__":
    main()

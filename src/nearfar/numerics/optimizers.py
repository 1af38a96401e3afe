"""Concave functions over the simplex, maximised by Newton's method.

    max f(w)        w >= 0,  sum_l w_l = 1

f has a gradient and, almost everywhere, a curvature (the negative of its Hessian). A step maximises
the quadratic model over the whole simplex, then searches the line to that maximum. At the optimum
the terms that have weight have the largest gradient; `max_l gradient_l - w'gradient` bounds how far
f is below it.

L-BFGS as a generator of iterations.

SciPy's L-BFGS-B calls back once per iteration. It runs in a thread of its own, which waits while
the consumer looks at an iteration: the consumer sees each as it happens, and may stop the search.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextvars import copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import OptimizeResult, minimize

from nearfar.runtime.progress import check_time
from nearfar.typing import Ints, Matrix, Vector

# Newton's method takes about ten; this ends a search that rounding keeps from its tolerance.
_MAX_STEPS = 100
# A shorter step along a line changes nothing but roundings.
_SMALLEST_STEP = 1e-12
# Share of the largest gradient below which a slope is rounding.
_ROUNDING = 1e-16
# Share of the rise that the slope promises (Armijo's condition, with the usual constant).
_LEAST_RISE = 1e-4
# Relative difference of values that rounding may cause.
_SAME_VALUE = 1e-14
# Share of the trace that is added to a curvature, first; it keeps flat directions in place.
_RIDGE = 1e-12


@dataclass(frozen=True)
class Point:
    """A concave function at a point of the simplex.

    Attributes
    ----------
    curvature: Rows of terms -> the curvature among them, a psd matrix.
    """

    value: float
    gradient: Vector
    curvature: Callable[[Ints], Matrix]

    def gap(self, w: Vector) -> float:
        """Return the most by which the function can rise from here."""
        return float(self.gradient.max() - self.gradient @ w)


def maximize(f: Callable[[Vector], Point], w: Vector, *, tol: float) -> tuple[Vector, Point]:
    """Maximise a concave function over the simplex.

    Parameters
    ----------
    f: Weights -> `Point`.
    w: shape (n_terms,). Where to begin.
    tol: How far below the maximum the result may be.

    Returns
    -------
    w : array of shape (n_terms,)
    point : Point
        The function there.
    """
    point, before = f(w), np.inf
    for _ in range(_MAX_STEPS):
        gap = point.gap(w)
        if gap <= tol:
            break
        # Move to the maximum of the quadratic model over the simplex.
        gradient = point.gradient
        rows = np.flatnonzero((w > 0) | (gradient > gradient @ w))
        H = point.curvature(rows)
        p = np.zeros(len(w))
        p[rows] = maximize_quadratic(H, gradient[rows] + H @ w[rows], w[rows]) - w[rows]
        slope = float(point.gradient @ p)
        exact = slope > _ROUNDING * np.abs(point.gradient).max()
        if not exact and gap > before / 2:
            break
        there, reached = _search(f, w, p, point.value - _slack(point), slope if exact else np.inf)
        if exact and reached.value < point.value - _slack(point):
            break
        w, point, before = there, reached, gap
    return w, point


def _slack(point: Point) -> float:
    """Return what rounding may do to the value."""
    return _SAME_VALUE * max(abs(point.value), float(np.abs(point.gradient).max()))


def _search(
    f: Callable[[Vector], Point], w: Vector, p: Vector, value: float, slope: float
) -> tuple[Vector, Point]:
    """Go along p to where the function is higher and not falling steeply."""
    step = 1.0
    while True:
        there = np.maximum(w + step * p, 0.0)
        there /= there.sum()
        point = f(there)
        new_slope = float(point.gradient @ p)
        rising = new_slope >= 0 or point.value >= value + _LEAST_RISE * step * slope
        if slope == np.inf or (rising and new_slope >= -0.5 * slope) or step < _SMALLEST_STEP:
            return there, point
        step *= min(0.9, max(0.1, slope / (slope - new_slope)))


def maximize_quadratic(H: Matrix, q: Vector, x: Vector) -> Vector:
    """Maximise ``q'x - x'Hx / 2`` over the simplex, from a point in it; H is psd.

    An active-set method: the variables that are positive are optimised as if unbounded; one that
    would turn negative leaves, and the one with the largest gain enters.
    """
    n = len(q)
    x = x.copy()
    inside = x > 0
    scale = float(np.abs(q).max()) or 1.0
    for _ in range(20 * n):
        members = np.flatnonzero(inside)
        goal, price = _maximize_on_face(H, q, members, x[members])
        low = goal < 0
        if low.any():
            now = x[members]
            ratio = now[low] / (now[low] - goal[low])
            first = ratio.argmin()
            x[members] = np.maximum(0.0, now + ratio[first] * (goal - now))
            x[members[low][first]] = 0.0
            inside = x > 0
            continue
        x[:] = 0.0
        x[members] = goal
        gain = q - H @ x - price
        gain[inside] = -np.inf
        enters = int(gain.argmax())
        if not gain[enters] > 1e-14 * scale:
            break
        inside[enters] = True
    return x / x.sum()


def _maximize_on_face(H: Matrix, q: Vector, members: Ints, now: Vector) -> tuple[Vector, float]:
    """Maximise the quadratic over the plane of a face; also return the multiplier of the sum."""
    face, gain = H[np.ix_(members, members)], q[members]
    x = np.ones(1)
    if len(members) > 1:
        others = face[1:, 1:] - face[1:, :1] - face[:1, 1:] + face[0, 0]
        ridge = _RIDGE * max(np.trace(face), float(np.abs(gain).max()), np.finfo(float).tiny)
        pull = gain[1:] - gain[0] - face[1:, 0] + face[0, 0]
        if not np.isfinite(others).all():
            raise FloatingPointError("The curvature over the simplex is not finite.")
        move = None
        while move is None:
            try:
                factor = cho_factor(others + ridge * np.eye(len(others)), check_finite=False)
                move = cho_solve(factor, pull - others @ now[1:])
            except np.linalg.LinAlgError:
                # The ridge should be just large enough.
                ridge *= 100.0
        y = now[1:] + move
        x = np.append(1.0 - y.sum(), y)
    return x, float(gain[0] - face[0] @ x)


Objective = Callable[[Vector], tuple[float, Vector]]
Bounds = list[tuple[float | None, float | None]]

# SciPy's default: more steps take more memory and time for an iteration.
_MEMORY = 10


def lbfgs(
    f: Objective,
    x: Vector,
    *,
    max_iter: int,
    tol: float,
    bounds: Bounds | None = None,
    memory: int = _MEMORY,
) -> Generator[tuple[float, Vector], None, str]:
    """Minimise a smooth function within bounds, an iteration at a time.

    Parameters
    ----------
    f: Point -> value and gradient.
    x: shape (n,). Where to begin.
    max_iter: The most iterations.
    tol: Relative decrease of the value at which to end.
    memory: Steps that are remembered.

    Yields
    ------
    value : float
    x : array of shape (n,)
        After each iteration; the start, if there is no iteration.

    Returns
    -------
    str
        "converged", "max_iter", or "stalled" if rounding ends the search along a line.
    """
    options: Any = {"maxiter": max_iter, "maxfun": 20 * max_iter, "ftol": tol, "maxcor": memory}
    outbox: SimpleQueue[tuple[float, Vector] | str | BaseException] = SimpleQueue()
    ahead, stopped = threading.Semaphore(0), threading.Event()

    def value(x: Vector) -> tuple[float, Vector]:
        check_time()
        objective, gradient = f(x)
        if not np.isfinite(objective):
            raise ValueError(
                "The objective is not finite because the numbers are too large; "
                "try scale='standard'."
            )
        return objective, gradient

    def show(intermediate_result: OptimizeResult) -> None:
        """Put out an iterate, then wait to be told to go ahead."""
        outbox.put((float(intermediate_result.fun), intermediate_result.x.copy()))
        ahead.acquire()
        if stopped.is_set():
            raise StopIteration

    def search() -> None:
        callback: Any = show
        try:
            result = minimize(
                value,
                x,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=callback,
                options=options | {"gtol": 0.0},
            )
            outbox.put({0: "converged", 1: "max_iter"}.get(result.status, "stalled"))
        except BaseException as error:
            outbox.put(error)

    worker = threading.Thread(target=copy_context().run, args=(search,), daemon=True)
    worker.start()
    moved = False
    try:
        while True:
            item = outbox.get()
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, str):
                if not moved:
                    yield f(x)[0], x
                return item
            moved = True
            yield item
            ahead.release()
    finally:
        # End the search at its next iterate, and wait for that.
        stopped.set()
        ahead.release()
        worker.join()

"""The objectives of ordinal embedding, triplet by triplet, from the papers."""

from __future__ import annotations

import math


def objective(P, triplets, method, *, mu=0.05, alpha=1.0, penalty=0.0):
    """Return the mean loss of triplets (anchor, near, far), plus the penalty for one triplet."""
    total = 0.0
    for anchor, near, far in triplets:
        a = sum((P[anchor][c] - P[near][c]) ** 2 for c in range(len(P[0])))
        b = sum((P[anchor][c] - P[far][c]) ** 2 for c in range(len(P[0])))
        if method == "soft_ordinal":
            total += max(0.0, 1.0 + math.sqrt(a + 1e-6) - math.sqrt(b + 1e-6)) ** 2
        elif method == "crowd_kernel":
            total -= math.log((mu + b) / (2 * mu + a + b))
        else:
            near_kernel = (1 + a / alpha) ** (-(alpha + 1) / 2)
            far_kernel = (1 + b / alpha) ** (-(alpha + 1) / 2)
            total -= math.log(near_kernel / (near_kernel + far_kernel))
    squares = sum(x * x for row in P for x in row)
    return (total + penalty * squares) / len(triplets)

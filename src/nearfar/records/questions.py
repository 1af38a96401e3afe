"""Pairs to begin with when nothing is known, and pairs to ask people about.

Without labels, candidates that agree on several rare values are taken for matches, and the other
candidates of their records for different ones. Nothing is certified then.

Half of the questions are the pairs nearest to the threshold, whose answers move it most. The others
are drawn at random from strata of the probability, so that their answers tell the F1 of today's
decisions, which were made before the answers. In a stratum of N pairs of which k were drawn and w
decided wrongly, the share of wrong decisions is estimated by w / k, and its variance by
p (1 - p) / k with p = (w + q) / (k + 1), where q is the share that the matcher expects. The
variance of F1 = 2 TP / (2 TP + FP + FN) follows by linearisation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nearfar.evidence.intervals import mean_interval
from nearfar.records.records import Records, plain
from nearfar.typing import Bools, Ints, Vector

ENOUGH = 0.05
"""Width of the 90 % interval of F1 at which people may stop answering."""
# More records than this with a value, and agreement on it tells little.
_RARE = 3
_FEWEST_SURE = 20
_MANY_FIELDS = 6
_STRATA = np.array([0.001, 0.01, 0.1, 0.5, 0.9, 0.99])


def pairs_by_rare_values(left: Any, right: Any, pairs: Ints) -> tuple[Ints, Bools]:
    """Return pairs that are surely the same or different, by agreement on rare values.

    Parameters
    ----------
    left, right: `right` may be `left`.
    pairs: shape (n_pairs, 2). Candidates.
    """
    tables = Records.of(left, "left"), Records.of(right, "right")
    agreed = np.zeros(len(pairs), dtype=np.intp)
    for name in tables[0].fields.keys() & tables[1].fields.keys():
        sides = [np.array([plain(cell) for cell in table.fields[name]]) for table in tables]
        known, code = np.unique(np.concatenate(sides), return_inverse=True)
        codes = np.split(code, [len(sides[0])])
        counts = [np.bincount(c, minlength=len(known)) for c in codes]
        rare = np.maximum(*counts) <= _RARE
        own, other = (c[rows] for c, rows in zip(codes, pairs.T, strict=True))
        agreed += (own == other) & rare[own] & (known[own] != "")
    # With more fields, two may go together, such as a suburb and its postcode.
    same = agreed >= (2 if len(tables[0].fields) < _MANY_FIELDS else 3)
    if same.sum() < _FEWEST_SURE:
        raise ValueError(
            f"Only {same.sum()} pairs of records agree on several rare values, too few to begin "
            "with; give pairs for which it is known whether they are the same."
        )
    sure = same | (np.isin(pairs[:, 0], pairs[same, 0]) & (agreed == 0))
    return pairs[sure], same[sure]


class Questions(NamedTuple):
    """Pairs to ask about: places among the candidates, strata, and pairs that each stands for.

    The stratum of a pair that was not drawn at random is -1, and its weight 0.
    """

    place: Ints
    stratum: Ints
    weight: Vector


def choose_questions(
    scores: Vector, probability: Vector, same: Bools, asked: Bools, n: int, random: Any
) -> Questions:
    """Choose pairs whose answers matter most, and random ones to estimate with.

    Parameters
    ----------
    scores: shape (n_pairs,). Log-odds relative to the threshold.
    same: Today's decisions.
    asked: Pairs whose answers are known.
    n: Number of questions.
    """
    free = np.flatnonzero(~asked)
    near = free[np.argsort(np.abs(scores[free]), kind="stable")][: n // 2]
    free = np.setdiff1d(free, near)
    code = 2 * np.searchsorted(_STRATA, probability[free], side="right") + same[free]
    strata, sizes = np.unique(code, return_counts=True)
    parts, left = [(near, np.full(len(near), -1), np.zeros(len(near)))], n - len(near)
    # Small strata first: what they cannot fill goes to the others.
    for place in np.argsort(sizes, kind="stable"):
        share = left // (len(strata) + 1 - len(parts))
        drawn = random.permutation(free[code == strata[place]])[:share]
        weight = sizes[place] / max(1, len(drawn))
        parts.append((drawn, *(np.full(len(drawn), each) for each in (strata[place], weight))))
        left -= len(drawn)
    return Questions(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def estimated_f1(
    stratum: Ints, weight: Vector, probability: Vector, guess: Bools, same: Bools
) -> tuple[float, tuple[float, float]]:
    """Estimate the F1 of decisions from answers to random questions, with its 90 % interval.

    Parameters
    ----------
    stratum, weight: shape (n_answers,). As `choose_questions` returned them.
    probability: shape (n_answers,). Of being the same, before the answer.
    guess, same: shape (n_answers,). Decisions, and answers.
    """
    total = weight @ guess + weight @ same
    f1 = float(2 * weight @ (guess & same) / total) if total else 0.0
    variance = 0.0
    for number in np.unique(stratum[stratum >= 0]):
        own = stratum == number
        k = int(own.sum())
        wrong = (guess != same)[own].sum()
        expected = np.where(guess, 1 - probability, probability)[own].mean()
        p = (wrong + expected) / (k + 1)
        moves = (2 - f1 if guess[own][0] else f1) * weight[own].sum() / max(total, 1e-12)
        variance += moves**2 * p * (1 - p) / k
    return f1, mean_interval(f1, variance, max(1, len(stratum)))


def f1_in_words(f1: float, interval: tuple[float, float]) -> str:
    """Say what the answers tell, and whether to go on."""
    low, high = interval
    text = f"F1 of the decisions before these answers: {f1:.3f} ({low:.3f} to {high:.3f})."
    if high - low <= ENOUGH:
        return f"{text} More answers would change little; you may stop."
    return f"{text} More answers would narrow it."

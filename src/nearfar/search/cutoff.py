"""Cut-offs on the score that are certified to meet a target: answers, or nothing instead of junk.

A query is answered by all documents with a score at or above the cut-off. A target is a bound on a
mean over queries: on the *recall* of those with relevant documents, or on the *precision* of those
that get an answer. An answer to a query that deserves nothing has precision 0.

A mean loss q (1 - recall or 1 - precision) of m queries is less certain than that of m independent
ones where queries share relevant documents. With b_id = 1 / sqrt(number of relevant documents of i)
for each relevant document d, the correlation of two queries is taken as sum_d b_id b_jd: all of
their losses if they have the same documents, and what independent documents have in common
otherwise. The variance of q, and the number of independent groups, are

    v = c / (c - 1) sum_d (sum_i b_id (loss_i - q))^2 / m^2        c = m^2 / sum_d (sum_i b_id)^2.

As in `evidence.certify`, the bound is that of Clopper and Pearson for an effective
number of queries, n = m / e (z / t)^2, with the design effect e = v m / (q (1 - q)), the larger of
that at the cut-off and that where the queries just meet the target. Losses that are not 0 or 1 vary
less than counts do, so that e may be below 1. As some may still lose everything, v is then at least
what two more queries that lose everything would add.

Cut-offs are tried in a fixed order. For recall, they ascend from the lowest up to the first that
fails. Precision may be lower at the highest scores, so that descending cut-offs have several starts
(`_STARTS`), at shares of queries that get an answer. Each start has its part of the risk 1 -
confidence; the cut-offs after it keep this up to the first that fails, and the next start adds its
own (the fallback procedure of Wiens and Dmitrienko, 2005). The starts do not depend on judgements:
one chosen for its precision would be chosen for its luck.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from nearfar.evidence.certify import (
    Bound,
    TargetNotCertifiedError,
    clopper_pearson,
    few_units,
    parse_target,
    strongest,
    suggested,
    times_needed,
)
from nearfar.runtime.progress import check_time
from nearfar.runtime.threads import Threads
from nearfar.search.ranking import Relevance
from nearfar.typing import Bools, Floats, Ints, Matrix, Vector

# The most cut-offs that are tried.
_CANDIDATES = 200
# Scores that a thread holds at a time, as in `ranking`.
_MAX_ELEMENTS = 1 << 20
# With fewer independent groups of queries, their variance has one degree of freedom or none.
_FEWEST_GROUPS = 3
# Shares of queries with an answer at which the trials of a precision start.
_STARTS = (0.2, 0.5)
# Answers of a larger share of all documents are hardly worth having.
_MUCH = 0.25
# Cut-offs are this much below a score, relative to the largest: rounding differs between programs.
_ROUNDING = 1e-6
# Queries that lose everything and happen not to be among those seen. With one, graded losses with
# rare failures miss targets in 8 % of simulations, with two in 4 %.
_UNLUCKY = 2.0
# Targets below 0.5 in round numbers: a precision of 0.1 is one relevant document of ten answers.
_LOW = (0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.03, 0.02, 0.01)
# Of a refusal that says how many queries would be needed: as many times as there are.
_MOST_MORE = 50


@dataclass(frozen=True)
class Cutoff:
    """A cut-off on the score, and what is certified of it.

    Attributes
    ----------
    value : float
        Documents with this score or a larger one are answers.
    target : str
        What is certified, such as "recall>=0.9".
    estimate, bound : float
        Its figure on the queries that were set aside, and the certified bound.
    effective_queries : float
        Effective number of independent queries behind the figure.
    confidence : float
    n_documents : int
        Number of documents searched. Answers grow with it.
    parts : dict of str to dict of str to float
        What "all" of these queries get: their number "n_queries", mean "recall", mean "precision"
        of those that get an answer, mean "size" of answers, and the share that is "empty". Where
        the adapter changes vectors, also for "seen" and "unseen" documents apart; and for queries
        that deserve "nothing", if there are any.
    curve : dict of str to list of float
        The same figures of all these queries by "cutoff".

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import Relevance, RetrievalAdapter
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> Q = X[:300] + np.random.default_rng(1).normal(size=(300, 8)) / 4
    >>> adapter = RetrievalAdapter(target="recall>=0.9", learn=False)
    >>> cutoff = adapter.fit(Q, X, Relevance(range(300), range(300))).cutoff_
    >>> 0.9 <= cutoff.bound < cutoff.estimate
    True
    """

    value: float
    target: str
    estimate: float
    bound: float
    effective_queries: float
    confidence: float
    n_documents: int
    parts: dict[str, dict[str, float]]
    curve: dict[str, list[float]] = field(repr=False)

    def __str__(self) -> str:
        sure = f"with {100 * self.confidence:g} % confidence"
        lines = [
            f"Cut-off {self.value:.4g}: {self.target} is certified {sure} ({self.estimate:.3f}, at "
            f"least {self.bound:.3f}), for searches of {self.n_documents} documents."
        ]
        target, named = search_target(self.target), {"all": "judged queries were set aside"}
        named |= {kind: f"of them are for {kind} documents" for kind in ("seen", "unseen")}
        for name, what in named.items():
            if (part := self.parts.get(name)) is not None:
                weak = part[target.measure] < target.value
                hint = f' Use answers="{name}" to certify {target} for these.' if weak else ""
                lines.append(f"{part['n_queries']} {what}: {answers_text(part)}{hint}")
        if (nothing := self.parts.get("nothing")) is not None:
            wrong = f"{100 * (1 - nothing['empty']):.1f} % wrongly get an answer."
            lines.append(f"{nothing['n_queries']} of them deserve nothing: {wrong}")
        if self.parts["all"]["size"] > _MUCH * self.n_documents:
            lines.append(
                f"Answers are more than {100 * _MUCH:g} % of all documents: the scores hardly tell "
                "which are relevant. A weaker target has smaller answers."
            )
        return "\n".join(lines)


def answers_text(part: dict[str, float]) -> str:
    """Return the figures of some queries as a sentence."""
    precision = f"{part['precision']:.{'3f' if part['precision'] >= 0.1 else '2g'}}"
    return (
        f"recall {part['recall']:.3f}, precision {precision}, {part['size']:.1f} documents on "
        f"average, no answer for {100 * part['empty']:.1f} %."
    )


def search_target(target: object) -> Bound:
    """Return what a target of a search means."""
    with suppress(ValueError):
        bound = parse_target(target)
        if bound.measure != "fmr":
            return bound
    hint = suggested(target)
    raise ValueError(
        'The target of a search is "recall>=P" or "precision>=P" with P between 0 and 1; got '
        f"{target!r}.{hint * ('fmr' not in hint)}"
    )


class AnswerEvidence:
    """What judged queries get at cut-offs.

    Parameters
    ----------
    Q, X: Mapped vectors: inner products are scores.
    relevance: Judgements of the queries to count. Those without a relevant document deserve
        nothing.
    same_documents: Whether the documents asked for will be the same, so that queries are
        independent.
    cutoffs: By default those at which figures change, up to 200.

    Attributes
    ----------
    cutoffs: shape (n_cutoffs,). In ascending order, by default up to the best score of a
        relevant document.
    hits, sizes: shape (n_queries, n_cutoffs). Number of relevant documents, and of all, at
        a cut-off or above.
    """

    def __init__(
        self,
        Q: Floats,
        X: Floats,
        relevance: Relevance,
        *,
        same_documents: bool = False,
        cutoffs: Vector | None = None,
    ) -> None:
        queries, row = np.unique(relevance.query, return_inverse=True)
        row, document = row[relevance.relevant], relevance.document[relevance.relevant]
        if cutoffs is None:
            scores = np.einsum("ij,ij->i", Q[queries[row]], X[document]).astype(np.float64)
            # Recall changes at scores of relevant documents, and precision between them, too.
            ranks, ends = np.linspace(0, 1, _CANDIDATES // 2), (scores.min(), scores.max())
            cutoffs = np.append(np.quantile(scores, ranks), np.linspace(*ends, _CANDIDATES // 2))
            cutoffs = np.unique(cutoffs) - _ROUNDING * np.abs(scores).max()
        self.cutoffs = cutoffs
        self.n_documents, n = len(X), len(queries)
        self.n_relevant = np.bincount(row, minlength=n).astype(np.float64)
        starts = np.searchsorted(row, np.arange(n + 1))
        self.hits, self.sizes = np.zeros((2, n, len(self.cutoffs)))

        def count(some: slice) -> None:
            for place, values in enumerate(Q[queries[some]] @ X.T, some.start):
                relevant = values[document[starts[place] : starts[place + 1]]]
                for counts, each in ((self.hits, relevant), (self.sizes, values)):
                    high = np.sort(each[each >= self.cutoffs[0]])
                    counts[place] = len(high) - np.searchsorted(high, self.cutoffs)

        for _ in Threads().map(count, n, max(1, _MAX_ELEMENTS // len(X))):
            check_time()
        # The groups that queries belong to: documents, or itself if it deserves nothing.
        names, group = np.unique(document, return_inverse=True)
        nothing = np.flatnonzero(self.n_relevant == 0)
        rows = np.concatenate([row, nothing])
        groups = np.concatenate([group, len(names) + np.arange(len(nothing))])
        weight = 1 / np.sqrt(np.maximum(1, self.n_relevant))[rows]
        member = sparse.csr_array((weight, (groups, rows)))
        self.member: Any = sparse.eye_array(n) if same_documents else member

    def figures(self, some: Bools) -> dict[str, Vector]:
        """Return what some of the queries get, by cut-off."""
        hits, sizes, n_relevant = self.hits[some], self.sizes[some], self.n_relevant[some]
        return {
            "recall": _means(hits, np.broadcast_to(n_relevant[:, None], hits.shape)),
            "precision": _means(hits, sizes),
            "size": sizes.mean(axis=0),
            "empty": (sizes == 0).mean(axis=0),
        }

    def bounds(self, target: Bound, confidence: ArrayLike) -> tuple[Vector, Vector, Vector]:
        """Return the figure of a target by cut-off, its lower bound, and effective numbers.

        The last two have a row for each confidence, if there are several.
        """
        confidence = np.asarray(confidence, dtype=np.float64)[..., None]
        recall = target.measure == "recall"
        total = np.broadcast_to(self.n_relevant[:, None], self.hits.shape) if recall else self.sizes
        counted = (total > 0).astype(np.float64)
        m, figure = counted.sum(axis=0), _means(self.hits, total)
        error = 1 - figure
        rest = counted * (1 - self.hits / np.maximum(1, total) - error)
        with np.errstate(invalid="ignore", divide="ignore"):
            shared, loss = (np.square(self.member @ each).sum(axis=0) for each in (counted, rest))
            groups = m**2 / shared
            variance = loss / m**2 * groups / (groups - 1)
            binomial = error * (1 - error) / m
            unlucky = variance + (_UNLUCKY * (1 - error) / m) ** 2
            effect = np.maximum(variance, np.minimum(binomial, unlucky)) / binomial
            # Without losses, queries that share documents may all lose together.
            some = error * (1 - error) > 0
            effect = np.where(some, effect, m / groups)
            met = np.flatnonzero(figure >= target.value)
            just_met = effect[met[-1 if recall else 0]] if len(met) else 1.0
            # For recall, the same queries count at all cut-offs and show how they lose.
            effect = np.where(some | (not recall), effect, just_met)
            effective = m / np.maximum(effect, just_met) * few_units(groups, confidence)
            bound = 1 - clopper_pearson(error, effective, confidence)[1]
        known = groups >= _FEWEST_GROUPS
        return figure, np.where(known, bound, 0.0), np.where(known, effective, 0.0)


def _means(hits: Matrix, total: Matrix) -> Vector:
    """Return the mean share of hits of the queries that have a total, by cut-off; nan if none."""
    counted = np.count_nonzero(total, axis=0)
    shares = np.sum(hits / np.maximum(1, total), axis=0)
    return np.asarray(np.divide(shares, counted, np.full(len(shares), np.nan), where=counted > 0))


def choose_cutoff(
    evidence: AnswerEvidence,
    target: Bound,
    parts: dict[str, Bools] | None = None,
    confidence: float = 0.95,
) -> Cutoff:
    """Choose the cut-off that is certified to meet a target: the smallest answers for recall.

    Parameters
    ----------
    target: On the recall or the precision.
    parts: Some of the queries, to be stated apart.

    Raises
    ------
    TargetNotCertifiedError
        If the queries are too few to certify the target, or do not meet it.
    """
    found = _certified(evidence, target, confidence)
    if found is None:
        raise _refusal(evidence, target, confidence)
    place, figure, bound, effective = found
    every = np.full(len(evidence.hits), True)
    named = {"all": every, **(parts or {}), "nothing": evidence.n_relevant == 0}
    return Cutoff(
        float(evidence.cutoffs[place]),
        str(target),
        figure,
        bound,
        effective,
        confidence,
        evidence.n_documents,
        {
            name: {"n_queries": int(some.sum())}
            | {what: float(each[place]) for what, each in evidence.figures(some).items()}
            for name, some in named.items()
            if some.any()
        },
        {"cutoff": evidence.cutoffs.tolist()}
        | {what: each.tolist() for what, each in evidence.figures(every).items()},
    )


def _trials(evidence: AnswerEvidence, target: Bound) -> tuple[Ints, Ints]:
    """Return the cut-offs in the order of their trials, and where in this order trials start."""
    order = np.arange(len(evidence.cutoffs))
    if target.measure == "recall":
        return order, order[:1]
    answered = (evidence.sizes[:, ::-1] > 0).mean(axis=0)
    return order[::-1], np.searchsorted(answered, _STARTS)


def _certified(
    evidence: AnswerEvidence, target: Bound, confidence: float
) -> tuple[int, float, float, float] | None:
    """Return the last cut-off that is certified, its figure, bound and effective number."""
    order, starts = _trials(evidence, target)
    risks = np.arange(1, len(starts) + 1) / len(starts) * (1 - confidence)
    figure, bounds, effective = evidence.bounds(target, 1 - risks)
    found, parts = None, 0
    for trial, place in enumerate(order.tolist()):
        parts += int(np.count_nonzero(starts == trial))
        if parts and bounds[parts - 1, place] >= target.value:
            at = parts - 1, place
            found = place, float(figure[place]), float(bounds[at]), float(effective[at])
        else:
            parts = 0
    return found


def _refusal(evidence: AnswerEvidence, target: Bound, confidence: float) -> TargetNotCertifiedError:
    """Say how many queries are needed if they are like these, and what these can certify."""
    order, starts = _trials(evidence, target)
    places, each = order[np.minimum(starts, len(order) - 1)], 1 - (1 - confidence) / len(starts)
    figure, _, effective = (values[places] for values in evidence.bounds(target, each))
    n, some = len(evidence.hits), effective > 0
    error, effective = 1 - figure[some], effective[some]
    more = times_needed(error, target.error, lambda more: more * effective, each)
    needed = None if more is None else math.ceil(more * n)
    low = [Bound(target.measure, value) for value in _LOW if value < target.value]
    weaker = strongest(
        [*target.weaker, *low], lambda bound: _certified(evidence, bound, confidence)
    )
    best = f"{target.measure} is {1 - error.min(initial=1.0):.3f}"
    # If nobody judges that many, the target is out of reach.
    ways = [f"give about {needed} such queries"] if needed and needed <= _MOST_MORE * n else []
    if weaker is None:
        can = f"no {target.measure} of {_LOW[-1]} or more"
    else:
        ways, can = [*ways, "choose a weaker target"], weaker
    remedy = ": " * bool(ways) + ", or ".join(ways)
    return TargetNotCertifiedError(
        f"{target} cannot be certified with {100 * confidence:g} % confidence. {n} judged queries "
        "take no part in learning, of which those that share documents count less. At the cut-offs "
        f"tried first, their best {best}{remedy}. With these queries, {can} can be certified.",
        queries_needed=needed,
        strongest=weaker,
    )

"""`AutoMetric`: try the learners on held-out data, and blend what they learned (`auto_problem`)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from nearfar.constraints import (
    Chunklets,
    ConstraintsOver,
    Pairs,
    Triplets,
    to_chunklets,
    to_pairs,
    to_triplets,
)
from nearfar.learners.auto_problem import AutoProblem
from nearfar.learners.base import MetricLearner
from nearfar.learners.held_out import (
    Goal,
    Validation,
)
from nearfar.learners.problem import FitInput
from nearfar.runtime import parameters
from nearfar.runtime.parameters import choice, number
from nearfar.typing import Floats

_EXCLUDED = frozenset({"AutoMetric", "MixtureNCA", "MLKR", "PSDBoost"})
_CHEAP_FIRST = (
    "InverseCovariance",
    "RCA",
    "KISSME",
    "GMML",
    "PLDA",
    "XQDA",
    "DCA",
    "LFDA",
    "DRMetric",
    "MaxMarginMetric",
    "LMNN",
    "NCA",
    "SparseNCA",
    "BoostMetric",
    "MetricBoost",
)


class AutoMetric(MetricLearner):
    """Start here: a blend of what several learners learn, chosen on held-out data.

    The distance as it was is one of the candidates, so that the result is not worse than that
    beyond noise.

    Parameters
    ----------
    candidates : sequence of str or of learners, optional
        What to try, by name or as learners with parameters of your own. By default all learners
        of a linear metric that learn from this kind of supervision.
    budget : float, default=60.0
        Seconds that a fit may take. Cheap candidates come first; those that there is no time for
        are left out. The result depends on the speed of the machine only if time runs short.
    goal : {"classification", "ranking"}, default="classification"
        What labels are for: nearest neighbours of the right class, or as many of the class as
        possible among the first.
    validation : {"rows", "classes"}, default="rows"
        Whether labelled rows or whole classes are held out. Choose "classes" for a metric that is
        meant for classes it has not seen; the goal is then a ranking.
    scale : {"auto", "standard", "unit", "cosine"} or None, default="auto"
        How X is scaled internally; the result applies to X as given. "standard" gives every feature
        unit variance, "unit" leaves features as they are, "cosine" divides each row by its length,
        and "auto" takes what suits Euclidean distance best (`scale_`). None is "unit".
    n_components : int, optional
        Dimension to reduce to, by the principal axes of the mapped points.
    random_state : int, RandomState or None, default=0
        For splits of the data and for learners that draw at random.
    n_jobs : int, optional
        Number of threads. None and -1 use all cores, -2 all but one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    metric_ : Metric
        The blend.
    components_ : array of shape (n_components, n_features)
        Its map L.
    weights_ : dict of str to float
        Share of each candidate in the mean squared distance; they sum to one. "as it was" is
        Euclidean distance between scaled points.
    leaderboard_ : list of dict
        What became of each candidate: its mean log-likelihood of held-out data, alone with the
        distance as it was, its number of iterations, its weight, the seconds it took, and a note
        if it was left out. The best one comes first.
    expected_ : Expected or None
        What to expect on new data: the measure on an outer part of the data that played no part,
        its 90 % interval, and the measure of the distance as it was. None if there are too few
        data to put aside.
    history_ : History
        An iteration is a candidate; the objective is the mean negative log-likelihood of held-out
        data under the best blend so far.
    n_iter_ : int
        Number of candidates tried.
    scale_ : str or None
        How X was scaled.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import AutoMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> auto = AutoMetric(candidates=["DRMetric", "NCA"]).fit(X, y)
    >>> sorted(auto.weights_)
    ['DRMetric', 'NCA', 'as it was']
    >>> auto.expected_.measure, auto.expected_.value < 0.1
    ('error', True)
    """

    supervision: ClassVar[tuple[str, ...]] = ("labels", "chunklets", "pairs", "triplets")
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "budget": number(above=0.0),
        "goal": choice("classification", "ranking"),
    }

    def __init__(
        self,
        *,
        candidates: Sequence[Any] | None = None,
        budget: float = 60.0,
        goal: Literal["classification", "ranking"] = "classification",
        validation: Validation = "rows",
        scale: str | None = "auto",
        n_components: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.candidates = candidates
        self.budget = budget
        self.goal = goal
        self.validation = validation
        self.scale = scale
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._learners("labels")

    def _build_problem(self, data: FitInput) -> AutoProblem:
        supervision = _checked(data.Z, data.supervision)
        learners = self._learners(_kind_of(supervision))
        goal: Goal = "neighbors" if self.goal == "classification" else "ranking"
        seed = int(data.random_state.randint(2**31 - 1))
        return AutoProblem(learners, data.Z, supervision, goal, self.validation, self.budget, seed)

    def _learners(self, kind: str) -> dict[str, MetricLearner]:
        """Return the candidates by name, the cheap ones first."""
        known = known_learners()
        if self.candidates is None:
            names = [n for n in known if n not in _EXCLUDED and kind in known[n].supervision]
            order = {name: place for place, name in enumerate(_CHEAP_FIRST)}
            names.sort(key=lambda name: order.get(name, len(order)))
            return {name: known[name]() for name in names}
        found: dict[str, MetricLearner] = {}
        for item in self.candidates:
            if isinstance(item, str):
                if item not in known:
                    raise ValueError(
                        f"There is no learner {item!r}; choose from {', '.join(known)}."
                    )
                name, learner = item, known[item]()
            elif isinstance(item, MetricLearner):
                name, learner = type(item).__name__, item
            else:
                raise ValueError(f"Candidates are names or learners; got {item!r}.")
            if isinstance(learner, AutoMetric):
                raise ValueError("AutoMetric cannot be its own candidate.")
            while name in found:
                name += "'"
            found[name] = learner
        return found


def known_learners() -> dict[str, type[MetricLearner]]:
    """Return every learner of nearfar by the name of its class.

    Examples
    --------
    >>> from nearfar.learners.auto import known_learners
    >>> known_learners()["BoostMetric"]
    <class 'nearfar.learners.boosting.boostmetric.BoostMetric'>
    """
    found: dict[str, type[MetricLearner]] = {}
    waiting: list[Any] = [MetricLearner]
    while waiting:
        kind = waiting.pop()
        waiting += reversed(kind.__subclasses__())
        hidden = inspect.isabstract(kind) or kind.__name__.startswith("_")
        if kind.__module__.startswith("nearfar.") and not hidden:
            found[kind.__name__] = kind
    return found


def _checked(Z: Floats, supervision: Any) -> Any:
    """Return the supervision, or raise an error that says what is missing."""
    if isinstance(supervision, ConstraintsOver):
        supervision = supervision.constraints
    unused: Any = None
    if isinstance(supervision, Triplets):
        return to_triplets(Z, supervision, unused, unused)
    if isinstance(supervision, Pairs):
        return to_pairs(Z, supervision, unused, unused)
    if isinstance(supervision, Chunklets):
        return to_chunklets(Z, supervision)
    sizes = np.unique(supervision, return_counts=True)[1]
    if len(sizes) < 2 or sizes.max() < 2:
        raise ValueError(
            "AutoMetric needs at least two classes, and at least one class with two members."
        )
    return supervision


def _kind_of(supervision: Any) -> str:
    kinds = {Triplets: "triplets", Pairs: "pairs", Chunklets: "chunklets"}
    return kinds.get(type(supervision), "labels")

"""`AutoMetric`: try the learners on held-out data, and blend what they learned (`auto_problem`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from nearfar.learners.base import MetricLearner, known_learners
from nearfar.learners.declaration import Validation, learner
from nearfar.learners.fitting import Data, FitMethod, builder_of, choose_scale, learn
from nearfar.learners.problem import FitInput, Problem
from nearfar.learners.scaling import Scaler
from nearfar.learners.selection.auto_problem import AutoProblem, outer_splits
from nearfar.learners.selection.choice import Selection
from nearfar.learners.selection.expectation import Expected
from nearfar.measures.neighbor_votes import HeldOutVotes
from nearfar.metrics.metric import Metric
from nearfar.runtime import parameters
from nearfar.runtime.messages import ShowsFit, bars, fragment
from nearfar.runtime.parameters import choice, integer, number, optional
from nearfar.runtime.progress import should_stop
from nearfar.supervision import Split, Supervision


@learner
class AutoMetric(ShowsFit, MetricLearner):
    """Start here: a blend of what several learners learn, chosen on held-out data.

    Euclidean distance is one of the candidates. It is the whole result if the blend does worse than
    it on data that were put aside, unless `n_components` is given.

    Parameters
    ----------
    candidates : sequence of str or of learners, optional
        What to try, by name or as learners with parameters of your own. By default all learners
        that learn from this kind of supervision, except for those of a metric with a gate.
    budget : float, default=60.0
        Seconds that a fit may take. Cheap candidates come first; those that there is no time for
        are left out. The result depends on the speed of the machine only if time runs short.
    goal : {"classification", "ranking", "regression"}, default="classification"
        What y is for: nearest neighbours of the right class, as many of the class as possible among
        the first, or numbers to predict. Numbers that are not whole, and floats of more than 30
        values, most with fewer than five rows, are predicted with any goal.
    form : {"any", "linear"}, default="any"
        Whether the metric may bend. "linear" is for what needs one matrix, such as `components_`
        and SQL; so is `n_components`. Trees are not tried if there are fewer rows than features.
    expected_folds : int, optional
        How many quarters of labelled data `expected_` is measured on, one to four, each with trial
        fits of its own; by default two, or one if that has 200 rows, or 30 classes where whole
        classes are held out. More make the interval shorter, and one is the fastest; with 0,
        nothing is put aside. The metric is the same with any number but 0.

    Attributes
    ----------
    metric_ : Metric
        The blend.
    weights_ : dict of str to float
        Share of each candidate in the mean squared distance; they sum to one. "Euclidean" is
        Euclidean distance between scaled points.
    n_neighbors_ : int
        How many neighbours vote best on held-out rows with a whole vote each, or have the best
        mean of numbers; 3 where no rows vote.
    leaderboard_ : list of dict
        What became of each candidate: its mean log-likelihood of held-out data, alone with
        Euclidean distance (of numbers, minus their mean squared error as a share of the variance),
        its number of iterations, its weight, the seconds it took, and a note if it was left out.
        The best one comes first.
    expected_ : Expected or None
        What to expect on new data: the measure on data that played no part in learning, the number
        of rows and classes that it is for, its 90 % interval, and the same for Euclidean distance
        with whole votes. If these are better than whole votes with learning, Euclidean distance
        is the result unless `n_components` is given. None if there are too few data to put
        aside. Each row counts once, also with `sample_weight`.
    votes_ : SoftVotes or None
        How neighbours vote best on held-out rows, with weights by distance and a prior
        (`MetricNeighborsClassifier`); `expected_` is measured on others.
    held_out_votes_ : HeldOutVotes or None
        The rows of `expected_`, with their nearest training rows. None if rows don't vote, or if
        their classes are new.
    history_ : History
        An iteration is a candidate; the objective is the mean negative log-likelihood of held-out
        data under the best blend so far.
    n_iter_ : int
        Number of candidates tried.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from nearfar import AutoMetric
    >>> X, y = load_wine(return_X_y=True)
    >>> auto = AutoMetric(candidates=["DRMetric", "NCA"]).fit(X, y)
    >>> sorted(auto.weights_)
    ['DRMetric', 'Euclidean', 'NCA']
    >>> auto.expected_.measure, auto.expected_.value < 0.1
    ('error', True)
    """

    candidates: Sequence[Any] | None = None
    budget: float = 60.0
    goal: Literal["classification", "ranking", "regression"] = "classification"
    form: Literal["any", "linear"] = "any"
    expected_folds: int | None = None
    validation: Validation = "rows"
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    verbose: int = 0

    supervision: ClassVar[tuple[str, ...]] = (
        "labels",
        "numbers",
        "chunklets",
        "pairs",
        "triplets",
    )
    tells_expected: ClassVar[bool] = True
    gives_linear: ClassVar[bool] = False
    auto_order: ClassVar[int | None] = None
    compare_order: ClassVar[int | None] = 0
    parameter_rules: ClassVar[dict[str, parameters.ParameterRule]] = {
        "budget": number(above=0.0),
        "goal": choice("classification", "ranking", "regression"),
        "form": choice("any", "linear"),
        "expected_folds": optional(integer(at_least=0)),
    }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._learners("labels")

    def _takes_numbers(self, y: object) -> bool:
        return self.goal == "regression" or super()._takes_numbers(y)

    def _method(self) -> FitMethod:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        def learned_from(data: Data) -> Data:
            """Leave out what `expected_` is measured on."""
            splits = self._outer_splits(data.supervision.usable(), seed)
            return Data(data.X[splits[0].rows], splits[0].known) if splits else data

        build = partial(self._build_problem, seed=seed)
        return replace(super()._method(), build=build, scale_data=learned_from)

    def _outer_splits(self, supervision: Supervision, seed: int) -> list[Split]:
        return outer_splits(supervision, self.validation, seed, self.expected_folds)

    def _fit_problem(
        self,
        problem: Problem,
        prepared: FitInput,
        data: Data,
        method: FitMethod,
        selection: Selection,
        inputs: tuple[object, object] = (None, None),
        notes: tuple[str, ...] = (),
    ) -> None:
        super()._fit_problem(problem, prepared, data, method, selection, inputs, notes)
        assert isinstance(problem, AutoProblem)
        self.expected_: Expected | None = None
        self.held_out_votes_: HeldOutVotes | None = None
        if problem.blend_of_known is not None:
            builder = builder_of(problem, prepared, method)
            known = problem.blend_of_known.metric(replace(builder, span=None))
            folds = list(self._folds(problem, (prepared.scaler.euclidean, known), data, method))
            self.expected_, self.held_out_votes_ = problem.expected(data.X, folds)
            # With few components, the baseline is not what would be the result.
            if self.expected_.worse and self.n_components is None:
                self.metric_ = builder.lift(problem.without_learning().metric(builder))
                self.__dict__ |= problem.attributes(self.history_, builder)
                folds = [((plain, plain), split) for (plain, _), split in folds]
                self.expected_, self.held_out_votes_ = problem.expected(data.X, folds)

    def _folds(
        self, problem: AutoProblem, metrics: tuple[Metric, Metric], data: Data, method: FitMethod
    ) -> Iterator[tuple[tuple[Metric, Metric], Split]]:
        """Yield metrics without and with learning, and what they were learned from."""
        first, *others = self._outer_splits(problem.supervision, problem.seed)
        yield metrics, first
        build = partial(self._build_problem, seed=problem.seed, put_aside=False)
        whole = replace(method, build=build, scale_data=None, span=None)
        for split in others:
            if problem.clock() + problem.seconds > self.budget or should_stop():
                return
            known = Data(data.X[split.rows], split.known)
            scale = None if method.span is not None else choose_scale(known, whole)
            metric = learn(known, scale, whole, Selection(), problem.seed)
            scaler = Scaler.fit(known.X, scale, split.known.row_weight)
            yield (scaler.euclidean, metric), split

    def _fit_html(self) -> str:
        if not hasattr(self, "weights_"):
            return ""
        shares = {name: share for name, share in self.weights_.items() if share > 0.0005}
        ordered = dict(sorted(shares.items(), key=lambda item: -item[1]))
        expected = "" if self.expected_ is None else self.expected_._repr_html_()
        return fragment("Shares in the blend", bars=bars(ordered)) + expected

    def _rotates(self) -> bool:
        learners = [each for each in self._learners("labels").values() if each.gives_linear]
        return all(each._rotates() and each._method().start is None for each in learners)

    def _build_problem(
        self, data: FitInput, seed: int = 0, *, put_aside: bool = True
    ) -> AutoProblem:
        supervision = data.supervision.usable()
        splits = self._outer_splits(supervision, seed) if put_aside else []
        methods = {}
        linear = self.form == "linear" or self.n_components is not None
        for name, candidate in self._learners(supervision.kind).items():
            # Trees need features, not coordinates in the span of rows.
            if not candidate.gives_linear and (linear or data.scaler.span is not None):
                continue
            if self.candidates is None and data.Z.shape[1] > candidate.auto_features:
                continue
            # Points are scaled already, and only a metric is wanted.
            fixed = {"scale": "unit", "n_components": None, "validation_fraction": None}
            own = clone(candidate)
            own.set_params(**{key: fixed[key] for key in fixed.keys() & own._defaults.keys()})
            methods[name] = own._method()
        return AutoProblem(
            methods,
            data.Z,
            supervision,
            goal="ranking" if self.goal == "ranking" else "neighbors",
            validation=self.validation,
            budget=self.budget,
            seed=seed,
            outer=splits[0] if splits else None,
            linear=linear or data.scaler.span is not None,
        )

    def _learners(self, kind: str) -> dict[str, MetricLearner]:
        """Return the candidates by name, the cheap ones first."""
        classes = known_learners()
        if self.candidates is None:
            able = [
                (cls.auto_order, name)
                for name, cls in classes.items()
                if cls.auto_order is not None
                and kind in cls.supervision
                # Metrics that bend were tried on tables with labels and numbers.
                and (cls.gives_linear or kind in ("labels", "numbers"))
            ]
            # Sorting by the place alone keeps the order of modules among those without one.
            able.sort(key=lambda item: item[0])
            return {name: classes[name]() for _, name in able}
        learners: dict[str, MetricLearner] = {}
        for item in self.candidates:
            if isinstance(item, str):
                if item not in classes:
                    raise ValueError(
                        f"There is no learner {item!r}; choose from {', '.join(classes)}."
                    )
                name, learner = item, classes[item]()
            elif isinstance(item, MetricLearner):
                name, learner = type(item).__name__, item
            else:
                raise ValueError(f"Candidates are names or learners; got {item!r}.")
            if isinstance(learner, AutoMetric):
                raise ValueError("AutoMetric cannot be its own candidate.")
            while name in learners:
                name += "'"
            learners[name] = learner
        return learners

"""Names of metric-learn: an error with our spelling, and nothing else changes."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest
from sklearn.base import clone

import nearfar
from nearfar import ITML, LMNN, LSML, MMC, NCA, RCA, GatedMetric, Metric, PairVerifier
from nearfar.learners.base import MetricLearner
from nearfar.runtime.metric_learn_names import (
    CLASSES,
    FIT_PARAMETERS,
    METHODS,
    PARAMETERS,
)

GATED = GatedMetric([Metric.identity(2)], [[1.0, 0.0]], [0.0])
LEARNERS = [
    getattr(nearfar, name)
    for name in nearfar.__all__
    if inspect.isclass(getattr(nearfar, name)) and issubclass(getattr(nearfar, name), MetricLearner)
]


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    assert not hasattr(nearfar, name)
    with pytest.raises(AttributeError) as missing:
        getattr(nearfar, name)
    assert str(missing.value) == f"module 'nearfar' has no attribute '{name}'. {CLASSES[name]}"
    with pytest.raises(ImportError) as not_imported:
        exec(f"from nearfar import LMNN, {name}", {})
    assert str(not_imported.value) == f"cannot import name '{name}' from 'nearfar'. {CLASSES[name]}"


def test_other_missing_names_have_the_usual_errors():
    with pytest.raises(AttributeError, match=r"^module 'nearfar' has no attribute 'nothing'$"):
        nearfar.nothing  # noqa: B018
    with pytest.raises(ImportError, match=r"^cannot import name 'nothing' from 'nearfar' "):
        exec("from nearfar import nothing", {})


def test_an_import_in_a_fresh_process():
    code = "from nearfar import ITML_Supervised"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: cannot import name 'ITML_Supervised' from 'nearfar'. "
        "ITML().fit(X, y) takes labels as well as Pairs."
    )


@pytest.mark.parametrize(
    ("cls", "parameters", "message"),
    [
        (LMNN, {"k": 3}, "LMNN has no parameter 'k'. It is n_neighbors."),
        (
            LMNN,
            {"n_neighbors": 3, "regularization": 0.5},
            "LMNN has no parameter 'regularization'. "
            "The weight of impostors is push, which is 1 - regularization.",
        ),
        (
            NCA,
            {"preprocessor": None},
            "NCA has no parameter 'preprocessor'. "
            "Constraints are row numbers of X: fit(X, Pairs(index, similar)), or Triplets(index).",
        ),
        (
            MMC,
            {"init": "identity"},
            "MMC has no parameter 'init'. "
            "The problem is convex: any start gives the same metric. See prior.",
        ),
        (
            RCA,
            {"n_chunks": 5},
            "RCA has no parameter 'n_chunks'. "
            "Labels give whole classes; chunks are Chunklets(ids), passed as y.",
        ),
    ],
)
def test_parameters(cls, parameters, message):
    with pytest.raises(TypeError) as error:
        cls(**parameters)
    assert str(error.value) == message
    with pytest.raises(ValueError, match="has no parameter") as error:
        cls().set_params(**parameters)
    assert str(error.value) == message


def test_several_parameters_are_told_at_once():
    with pytest.raises(TypeError, match=r"It is n_neighbors\. LMNN has no parameter 'regulariz"):
        LMNN(k=5, regularization=0.5)


def test_other_missing_parameters_have_the_usual_errors():
    with pytest.raises(TypeError, match=r"^NCA.__init__\(\) got an unexpected .* 'nothing'$"):
        NCA(nothing=1)
    with pytest.raises(ValueError, match=r"^Invalid parameter 'nothing' for estimator NCA"):
        NCA().set_params(nothing=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'k'"):
        NCA(k=3)  # It has no neighbours.


@pytest.mark.parametrize("cls", LEARNERS)
def test_no_learner_has_a_name_of_the_table(cls):
    learner = cls()
    for name, (ours, _) in PARAMETERS.items():
        if ours and ours in learner.get_params() and name in learner.get_params():
            pytest.fail(f"{cls.__name__} has both {ours} and {name}")
    foreign = {n for n in METHODS if not (n in dir(cls) or n.endswith("_"))}
    assert not any(hasattr(learner, name) for name in foreign)
    assert (
        list(inspect.signature(cls).parameters)
        == list(inspect.signature(cls.__init__).parameters)[1:]
    )
    assert set(inspect.signature(cls).parameters) == set(learner.get_params())
    assert clone(learner).get_params() == pickle.loads(pickle.dumps(learner)).get_params()


@pytest.mark.parametrize(
    ("owner", "metric"),
    [(ITML(), "learner.metric_"), (Metric.identity(2), "metric"), (GATED, "metric")],
    ids=["learner", "metric", "gated"],
)
@pytest.mark.parametrize("name", METHODS)
def test_methods(owner, metric, name):
    assert not hasattr(owner, name)
    assert getattr(owner, name, 1) == 1
    with pytest.raises(AttributeError) as error:
        getattr(owner, name)
    sentence = METHODS[name].replace("{metric}", metric)
    assert str(error.value) == (
        f"'{type(owner).__name__}' object has no attribute '{name}'. {sentence}"
    )


def test_other_missing_attributes_have_their_own_errors():
    with pytest.raises(AttributeError, match=r"^'LSML' object has no attribute 'nothing'$"):
        LSML().nothing  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'Metric' object has no attribute 'nothing'$"):
        Metric.identity(2).nothing  # noqa: B018
    with pytest.raises(AttributeError, match="several maps, so no matrix"):
        GATED.matrix  # noqa: B018
    with pytest.raises(AttributeError) as error:
        NCA().partial_fit  # noqa: B018
    assert str(error.value.__cause__) == "partial_fit learns in batches; set batch_size."


@pytest.mark.parametrize("name", FIT_PARAMETERS)
def test_parameters_of_fit(name):
    with pytest.raises(TypeError) as error:
        ITML().fit([[0.0], [1.0]], [0, 1], **{name: 1})
    assert str(error.value) == f"ITML.fit has no parameter {name!r}. {FIT_PARAMETERS[name]}"
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        ITML().fit([[0.0], [1.0]], [0, 1], nothing=1)
    assert list(inspect.signature(ITML.fit).parameters)[:4] == ["self", "X", "y", "groups"]


@pytest.mark.parametrize("name", ["strategy", "min_rate"])
def test_parameters_of_thresholds(name):
    with pytest.raises(TypeError, match=f"^PairVerifier has no parameter '{name}'. It is crit"):
        PairVerifier(RCA(), **{name: "f_beta"})
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        PairVerifier(nothing=1)
    assert clone(PairVerifier(RCA(), beta=2.0)).beta == 2.0


def test_warnings_of_fit_point_to_the_caller():
    with pytest.warns(UserWarning, match="X looks like row numbers") as found:
        ITML().fit([[0, 1], [2, 3], [1, 2], [3, 0]], [1, -1, 1, -1])
    assert found[0].filename == __file__

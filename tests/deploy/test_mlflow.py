"""MLflow's scikit-learn models: a pipeline that takes a table, and a learner."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from nearfar import LDA, Columns, MetricNeighborsClassifier
from nearfar.deploy.skops import TRUSTED_TYPES

pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mlflow.pyfunc
    import mlflow.sklearn

# Of MLflow itself: about its own type hints, and paths of its own.
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = np.random.default_rng(0).normal(size=80)
FRAME = pd.DataFrame({"size": SIZES, "plan": np.where(SIZES > 0, "pro", "basic")})


@pytest.fixture
def pipeline():
    model = make_pipeline(Columns(), MetricNeighborsClassifier(LDA()))
    return model.fit(FRAME, np.where(SIZES > 0.3, "stays", "leaves"))


def save(model, path, **how):
    mlflow.sklearn.save_model(model, str(path), pip_requirements=["nearfar"], **how)


def test_without_pickle(pipeline, tmp_path):
    save(pipeline, tmp_path / "model", skops_trusted_types=TRUSTED_TYPES)
    files = [path.name for path in (tmp_path / "model").iterdir()]
    assert "model.skops" in files
    assert not [name for name in files if name.endswith(".pkl")]
    again = mlflow.sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(FRAME), pipeline.predict_proba(FRAME))
    served = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    assert served.predict(FRAME).tolist() == pipeline.predict(FRAME).tolist()


def test_other_types_are_refused(pipeline, tmp_path):
    with pytest.raises(mlflow.MlflowException, match="untrusted types"):
        save(pipeline, tmp_path / "model", skops_trusted_types=TRUSTED_TYPES[:1])

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from nearfar import Bridge, Metric
from nearfar.bridge import Recall
from nearfar.bridge.recall import OldNeighbors
from nearfar.deploy.formats.onnx import write_onnx

RNG = np.random.default_rng(0)
OLD = RNG.standard_normal((600, 12))
TURN = np.linalg.qr(RNG.standard_normal((12, 12)))[0]
NOISY = OLD @ RNG.standard_normal((20, 12)).T + 2 * RNG.standard_normal((600, 20))


def test_a_rotation_keeps_everything():
    bridge = Bridge().fit(3 * OLD @ TURN + 5, OLD)
    assert bridge.form_ == "orthogonal"
    assert bridge.recall_.value == 1.0
    np.testing.assert_allclose(bridge.transform(3 * OLD @ TURN + 5), OLD, atol=1e-12)


def test_truncated_vectors():
    spread = OLD * np.logspace(0, -2, 12)
    bridge = Bridge().fit((spread @ TURN.T)[:, :12] @ np.eye(12, 9), spread)
    assert bridge.transform(np.zeros((1, 9))).shape == (1, 12)
    assert 0.5 < bridge.recall_.value < 1


def test_a_linear_map():
    new = OLD @ RNG.standard_normal((15, 12)).T
    bridge = Bridge().fit(new, OLD)
    assert bridge.form_ == "linear"
    assert bridge.recall_.value > 0.99


@pytest.mark.parametrize("form", ["orthogonal", "linear", "low-rank"])
def test_forms(form):
    bridge = Bridge(form).fit(NOISY, OLD)
    assert bridge.form_.startswith(form)
    assert 0.05 < bridge.recall_.value < 0.95


def test_the_interval_covers_other_items():
    rng = np.random.default_rng(5)
    covered = 0
    for seed in range(20):
        old = rng.standard_normal((400, 6))
        new = old + 0.3 * rng.standard_normal((400, 6))
        low_high = Bridge("orthogonal", random_state=seed).fit(new, old).recall_
        reverse = Bridge("orthogonal", random_state=seed + 100, test_fraction=0.5).fit(new, old)
        covered += low_high.low <= reverse.recall_.value <= low_high.high
    assert covered >= 16


def test_recall_by_hand():
    found = Bridge("orthogonal", n_neighbors=3, test_fraction=0.5).fit(NOISY, OLD)
    items, shares = np.random.RandomState(0).permutation(600), []
    for test, rest in ((items[:300], items[300:]), (items[300:], items[:300])):
        partial = Bridge("orthogonal").fit(NOISY[rest], OLD[rest])
        table = Metric.identity(12).distances(OLD[test], OLD)
        mapped = Metric.identity(12).distances(partial.transform(NOISY[test]), OLD)
        for i, a, b in zip(test, table, mapped, strict=True):
            a[i] = b[i] = np.inf
            shares.append(len(set(np.argsort(a)[:3]) & set(np.argsort(b)[:3])) / 3)
    assert found.recall_.value == pytest.approx(np.mean(shares))
    assert (found.recall_.n_items, found.recall_.n_searched) == (600, 600)


def test_recall_is_that_of_the_whole_index():
    rng = np.random.default_rng(1)
    index = rng.standard_normal((4000, 12))
    new = index @ rng.standard_normal((20, 12)).T + 2 * rng.standard_normal((4000, 20))
    alone = Bridge().fit(new[:200], index[:200]).recall_
    bridge = Bridge().fit(new[:200], index[:200], index=index[50:].astype(np.float32))
    fresh = np.arange(200, 4000)
    among = OldNeighbors(index, fresh, 10)
    truth = float(among.shares(bridge.transform(new[fresh])).mean())
    assert alone.low > truth
    assert bridge.recall_.low <= truth <= bridge.recall_.high
    assert bridge.recall_.n_searched == 4000
    assert "their 10 nearest of 4,000 old vectors: the mean of 200, each" in str(bridge.recall_)
    with pytest.raises(ValueError, match="index has 3 columns, and the old vectors have 12"):
        Bridge().fit(new[:200], index[:200], index=np.ones((5, 3)))


def test_a_sentence():
    sentence = str(Recall(0.875, 0.85, 0.9, 200, 10, 5000))
    assert sentence == (
        "Mapped items find 87.5 % (85.0 % to 90.0 %) of their 10 nearest of 5,000 old vectors: the "
        "mean of 200, each mapped by a bridge that was not learned from it. In a larger index they "
        "find fewer, and queries unlike these items far fewer."
    )


def _documents_and_queries():
    """Return old and new vectors of both, turned by the new model in another way."""
    rng, old, new = np.random.default_rng(2), [], []
    for n in (1500, 3300):
        turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
        old.append(rng.standard_normal((n, 8)))
        new.append(old[-1] @ turn + 0.2 * rng.standard_normal((n, 8)))
    return *old, *new


class TestQueries:
    """Queries whose new vectors lie elsewhere than those of documents."""

    OLD, ASKED, NEW, NEW_ASKED = _documents_and_queries()

    def truth(self, bridge):
        among = OldNeighbors(self.OLD, None, 10, self.ASKED[300:])
        return float(among.shares(bridge.transform(self.NEW_ASKED[300:])).mean())

    def test_the_figure_for_queries_is_what_they_get(self):
        plain = Bridge().fit(self.NEW[:500], self.OLD[:500], self.OLD)
        assert plain.query_recall_ is None
        assert self.truth(plain) < plain.recall_.value / 5
        some = (self.NEW_ASKED[:300], self.ASKED[:300])
        bridge = Bridge().fit(self.NEW[:500], self.OLD[:500], self.OLD, queries=some)
        stated = bridge.query_recall_
        assert (stated.n_items, stated.n_searched) == (300, 1500)
        assert stated.low <= self.truth(bridge) <= stated.high
        assert stated.value > 0.5
        # What it keeps of documents is stated for the same map.
        among = OldNeighbors(self.OLD, np.arange(500, 1500), 10)
        documents = float(among.shares(bridge.transform(self.NEW[500:])).mean())
        assert bridge.recall_.low <= documents <= bridge.recall_.high

    @pytest.mark.parametrize("form", ["orthogonal", "linear", "low-rank", "local"])
    def test_every_form_is_corrected(self, form, tmp_path):
        some = (self.NEW_ASKED[:300], self.ASKED[:300])
        bridge = Bridge(form).fit(self.NEW[:500], self.OLD[:500], queries=some)
        assert self.truth(bridge) > 0.5
        bridge.save(tmp_path / "bridge")
        again = Bridge.load(tmp_path / "bridge")
        assert again.query_recall_ == bridge.query_recall_
        np.testing.assert_array_equal(again.transform(self.NEW), bridge.transform(self.NEW))

    def test_bad_queries(self):
        for queries, message in (
            ((self.NEW_ASKED[:19], self.ASKED[:19]), "at least 20 queries; got 19"),
            ((self.NEW_ASKED[:30], self.ASKED[:29]), "got 30 new vectors and 29 old ones"),
            ((self.NEW_ASKED[:30, :5], self.ASKED[:30]), "X has 5 features"),
        ):
            with pytest.raises(ValueError, match=message):
                Bridge().fit(self.NEW, self.OLD, queries=queries)


def test_files(tmp_path):
    bridge = Bridge(n_neighbors=7).fit(NOISY, OLD)
    bridge.save(tmp_path / "bridge")
    again = Bridge.load(tmp_path / "bridge")
    np.testing.assert_array_equal(again.transform(NOISY), bridge.transform(NOISY))
    assert again.recall_ == bridge.recall_
    assert again.form_ == bridge.form_
    Metric.identity(3).save(tmp_path / "metric")
    (tmp_path / "text").write_text("no bridge")
    messages = {"metric": "not a valid bridge: .* another format", "text": "not a safetensors file"}
    for name, message in messages.items():
        with pytest.raises(ValueError, match=f"{name}: {message}"):
            Bridge.load(tmp_path / name)


def test_types_and_copies():
    bridge = Bridge("linear").fit(NOISY.astype(np.float32), OLD.astype(np.float32))
    assert bridge.transform(NOISY.astype(np.float32)).dtype == np.float32
    assert bridge.transform(NOISY).dtype == np.float64
    assert clone(bridge).get_params() == bridge.get_params()


def test_export(tmp_path):
    write_onnx(Bridge("linear").fit(NOISY, OLD).linear_map, tmp_path / "bridge.onnx", "float32")
    assert (tmp_path / "bridge.onnx").stat().st_size > 0


def test_bad_input():
    with pytest.raises(ValueError, match="same items; got 600 and 599"):
        Bridge().fit(NOISY, OLD[1:])
    with pytest.raises(ValueError, match="at least 20 items; got 19"):
        Bridge().fit(NOISY[:19], OLD[:19])
    with pytest.raises(ValueError, match="at least 41 items; got 40"):
        Bridge(n_neighbors=40).fit(NOISY[:40], OLD[:40])
    with pytest.raises(ValueError, match="X contains NaN"):
        Bridge().fit(np.where(NOISY > 3, np.nan, NOISY), OLD)
    with pytest.raises(ValueError, match='form must be "auto", "orthogonal"'):
        Bridge("cubic").fit(NOISY, OLD)
    with pytest.raises(ValueError, match="X has 12 features, but Bridge is expecting 20 features"):
        Bridge().fit(NOISY, OLD).transform(OLD)


class OneColumn(Bridge):
    """Takes the targets of scikit-learn's checks, which are one column."""

    def fit(self, X, y):
        return super().fit(X, None if y is None else np.reshape(np.asarray(y), (-1, 1)))


TOO_FEW = "A bridge needs at least 20 items."


@parametrize_with_checks(
    [OneColumn(n_neighbors=2)],
    expected_failed_checks=lambda _: {
        "check_n_features_in_after_fitting": TOO_FEW,
        "check_estimators_nan_inf": TOO_FEW,
        "check_fit2d_1feature": TOO_FEW,
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


class TestTransformer:
    TABLE = pd.DataFrame(NOISY, columns=[f"n{i}" for i in range(20)])

    def test_columns_in_another_order_are_refused(self):
        bridge = Bridge("linear").fit(self.TABLE, OLD)
        assert list(bridge.feature_names_in_) == list(self.TABLE.columns)
        with pytest.raises(ValueError, match="same order"):
            bridge.transform(self.TABLE[self.TABLE.columns[::-1]])
        np.testing.assert_allclose(
            bridge.transform(self.TABLE), Bridge("linear").fit(NOISY, OLD).transform(NOISY)
        )

    def test_output_of_its_own(self):
        bridge = Bridge("linear")
        mapped = bridge.fit_transform(NOISY, OLD)
        names = [f"bridge{i}" for i in range(12)]
        assert list(bridge.get_feature_names_out()) == names
        found = bridge.set_output(transform="pandas").transform(NOISY)
        assert list(found.columns) == names
        np.testing.assert_array_equal(found.to_numpy(), mapped)

    def test_no_rows(self):
        assert Bridge("linear").fit(NOISY, OLD).transform(NOISY[:0]).shape == (0, 12)

    def test_a_file_has_no_names(self, tmp_path):
        Bridge("linear").fit(self.TABLE, OLD).save(tmp_path / "bridge.safetensors")
        loaded = Bridge.load(tmp_path / "bridge.safetensors")
        assert loaded.transform(NOISY).shape == OLD.shape
        assert list(loaded.get_feature_names_out())[-1] == "bridge11"

from __future__ import annotations

import runpy

import numpy as np
import onnxruntime
import pytest

from nearfar import Bridge
from nearfar.bridge.local import Regions, local
from nearfar.bridge.maps import Centred, Ridge

RNG = np.random.default_rng(0)
# Four groups, each turned by its own rotation: no linear map undoes all of them.
GROUP = RNG.integers(4, size=1600)
CENTER = 8 * np.eye(4, 5)[GROUP]
OLD = CENTER + RNG.standard_normal((1600, 5))
TURNS = np.linalg.qr(RNG.standard_normal((4, 5, 5)))[0]
NEW = CENTER + np.einsum("ni,nij->nj", OLD - CENTER, TURNS[GROUP])


def test_features_by_hand():
    regions = Regions(np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]]))
    X = RNG.normal(size=(50, 2), scale=4)
    for x, row in zip(X, regions.features(X), strict=True):
        expected = np.zeros((3, 3))
        expected[((x - regions.centers) ** 2).sum(axis=1).argmin()] = [*x, 1]
        np.testing.assert_array_equal(row, expected.ravel())


def test_each_region_has_a_ridge_of_its_own():
    everywhere = Ridge(Centred.of(NEW, OLD)).linear()
    bent = local(NEW, OLD, everywhere)
    (regions,) = bent.maps
    blocks = regions.features(NEW).reshape(len(NEW), len(regions.centers), -1)
    nearest = blocks[:, :, -1].argmax(axis=1)
    mapped = regions.features(NEW) @ bent.L.T + bent.b
    for region in range(len(regions.centers)):
        inside = nearest == region
        plain = NEW[inside] @ everywhere.L.T + everywhere.b
        own = Ridge(Centred.of(NEW[inside], OLD[inside] - plain)).linear()
        expected = plain + NEW[inside] @ own.L.T + own.b
        np.testing.assert_allclose(mapped[inside], expected, atol=1e-10)


def test_auto_takes_regions_only_where_they_help():
    bent = Bridge().fit(NEW, OLD)
    linear = Bridge("linear").fit(NEW, OLD)
    assert bent.form_ == "local"
    assert bent.recall_.low > linear.recall_.high
    assert Bridge().fit(OLD @ TURNS[0], OLD).form_ == "orthogonal"


def test_files(tmp_path):
    bridge = Bridge("local").fit(NEW, OLD)
    bridge.save(tmp_path / "bridge")
    again = Bridge.load(tmp_path / "bridge")
    np.testing.assert_array_equal(again.transform(NEW), bridge.transform(NEW))
    assert again.n_features_in_ == 5


def test_exports(tmp_path):
    bridge = Bridge("local").fit(NEW, OLD)
    bridge.to_numpy(tmp_path / "bridge_map.py")
    names = runpy.run_path(str(tmp_path / "bridge_map.py"))
    np.testing.assert_allclose(names["transform"](NEW), bridge.transform(NEW), atol=1e-10)
    bridge.to_onnx(tmp_path / "bridge.onnx", dtype="float64")
    session = onnxruntime.InferenceSession(
        str(tmp_path / "bridge.onnx"), providers=["CPUExecutionProvider"]
    )
    for rows in (NEW, NEW[:1], NEW[:0]):
        (mapped,) = session.run(["mapped"], {"X": rows})
        np.testing.assert_allclose(mapped, bridge.transform(rows) if len(rows) else OLD[:0])


def test_too_few_items():
    with pytest.raises(ValueError, match="at least about 300"):
        Bridge("local").fit(NEW[:200], OLD[:200])

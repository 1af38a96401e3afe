from __future__ import annotations

import numpy as np
import pytest

from nearfar import AutoMetric, BoostMetric
from nearfar.learners.estimate import Estimate
from nearfar.workflow import fitting

LEARN = ["many.npy", "--label", "many_labels.npy", "--method", "boost", "--max-iter", 2]


@pytest.fixture
def many(folder):
    rng = np.random.default_rng(0)
    np.save(folder / "many.npy", rng.standard_normal((600, 3)))
    np.save(folder / "many_labels.npy", np.arange(600) % 2)


@pytest.fixture
def expected(monkeypatch):
    """Set what the next fit is expected to take."""

    def expect(seconds, n_bytes):
        found = Estimate("BoostMetric", (600, 3), seconds, n_bytes, 2.0, {"scaled rows": n_bytes})
        monkeypatch.setattr(BoostMetric, "estimate", lambda *args, **kwargs: found)

    return expect


@pytest.mark.parametrize("seconds", [9.0, 11.0])
def test_long_fits_are_announced(run, many, expected, seconds):
    expected(seconds, 2e6)
    result = run("learn", *LEARN, "--no-comparison")
    assert ("about 11 s and 2 MB beyond X" in result.stderr) == (seconds > 10)
    assert "beyond X" not in result.stdout


def test_what_cannot_fit_is_refused(run, many, expected, folder, monkeypatch):
    monkeypatch.setattr(fitting, "machine_memory", lambda: 8_000_000_000)
    expected(1.0, 9e9)
    result = run("learn", *LEARN, code=2)
    assert "BoostMetric needs about 9 GB beside the less than 1 MB of rows" in result.stderr
    assert "this machine has 8 GB" in result.stderr
    assert not (folder / "many.safetensors").exists()


def test_small_tables_are_not_estimated(run, monkeypatch):
    monkeypatch.setattr(BoostMetric, "estimate", None)
    run("learn", "iris", "--method", "boost", "--max-iter", 2, "--no-comparison")


def test_autometric_keeps_to_its_budget(run, many, monkeypatch):
    monkeypatch.setattr(AutoMetric, "estimate", None)
    options = ["--set", "candidates=['RCA']", "--no-comparison"]
    run("learn", *LEARN[:3], *options)


def test_a_real_estimate(run, many):
    result = run("learn", *LEARN, "--no-comparison")
    assert "beyond X" not in result.output


def test_memory_of_this_machine(monkeypatch):
    found = fitting.machine_memory()
    assert found is None or found > 10**8
    monkeypatch.delattr("os.sysconf", raising=False)
    assert fitting.machine_memory() is None

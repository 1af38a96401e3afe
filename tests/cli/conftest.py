"""Commands with --json, and quick learners."""

from __future__ import annotations

import json

import pytest

from nearfar import BoostMetric
from nearfar.comparison import default_methods
from nearfar.tables.methods import MethodChoice
from table_files import NAMES, fail, files, folder, iris, run

__all__ = ["NAMES", "fail", "files", "folder", "iris", "run"]
LABELS = ["--label", "species", "--drop", "name"]
QUICK = ["--method", "boost", "--folds", "2"]
NCA_ONLY = ["--set", "candidates=['NCA']"]
"""Makes autometric quick."""


@pytest.fixture
def document(run):
    """Run a command with --json, and return what it prints."""
    return lambda *arguments, **options: json.loads(run(*arguments, "--json", **options).stdout)


@pytest.fixture
def few_learners(monkeypatch):
    """Let ``best`` try one quick learner instead of the usual ones."""
    method = default_methods([BoostMetric(max_iter=5)])[-1]
    learners = MethodChoice.learners

    def some(self):
        return {method.name: method.estimator} if self.method is None else learners.fget(self)

    monkeypatch.setattr(MethodChoice, "learners", property(some))

"""Datasets without a folder or network from outside."""

from __future__ import annotations

import pytest
import sklearn.datasets


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    """No folder from the environment, and no network, unless a test sets them."""

    def refuse(**arguments):
        raise AssertionError(f"fetch_openml called with {arguments}")

    monkeypatch.delenv("NEARFAR_DATA", raising=False)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)

"""Datasets without a folder from outside."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.delenv("NEARFAR_DATA", raising=False)

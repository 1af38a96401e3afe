"""A folder for the Hugging Face hub: the metric, and its model card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearfar.deploy.formats import ExportTarget


def _write(metric: Any, folder: Path, *, license: str | None = None) -> str:
    """Write a metric and its model card.

    Parameters
    ----------
    license: For hub: license of the card, such as cc-by-4.0.
    """
    if not hasattr(metric, "to_hub"):
        raise ValueError("Only metrics have a model card.")
    metric.to_hub(folder, license=license or "")
    return "Metric and model card"


_HELP = "a folder with a metric and its model card, for the Hugging Face hub (not for adapters)"
TARGET = ExportTarget("hub", _HELP, _write, is_folder=True)

"""A metric, bridge or adapter as the last module of a sentence-transformers model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from sentence_transformers.base.modules import Module

from nearfar.deploy.linear_map import LinearMap, linear_maps

_EMBEDDING = "sentence_embedding"
_SIDES = ("query", "document")


class MetricModule(Module):
    """Maps sentence embeddings so that Euclidean distance is the metric.

    `SentenceTransformer.encode` and `encode_document` map documents, and `encode_query` maps
    queries; for a metric these are the same. The module is saved and loaded with the model; nearfar
    must be installed where it is loaded.

    Parameters
    ----------
    model : Metric, Bridge or adapter
        A linear map. An adapter has `transform_queries` and `transform_documents`.

    Examples
    --------
    >>> import torch
    >>> from nearfar import Metric
    >>> from nearfar.deploy.sentence_transformers import MetricModule
    >>> module = MetricModule(Metric([[1.0, 1.0]]))
    >>> module({"sentence_embedding": torch.tensor([[2.0, 3.0]])})["sentence_embedding"]
    tensor([[5.]])
    """

    config_keys = ["n_features", "n_components", "unit_rows"]  # noqa: RUF012
    forward_kwargs = {"task"}  # noqa: RUF012

    def __init__(self, model: Any) -> None:
        super().__init__()
        maps = dict(zip(_SIDES, linear_maps(model), strict=True))
        self.n_features = maps["document"].n_features
        self.n_components = maps["document"].n_components
        self.unit_rows = [maps[side].unit_rows for side in _SIDES]
        for side, side_map in maps.items():
            for name in ("L", "b"):
                array = np.array(getattr(side_map, name), dtype=np.float32)
                self.register_buffer(f"{side}_{name}", torch.from_numpy(array))

    def forward(
        self, features: dict[str, Any], task: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """Replace the embedding by the mapped one."""
        side = "query" if task == "query" else "document"
        rows = features[_EMBEDDING]
        if self.unit_rows[_SIDES.index(side)]:
            rows = torch.nn.functional.normalize(rows, dim=-1)
        L, b = getattr(self, f"{side}_L"), getattr(self, f"{side}_b")
        features[_EMBEDDING] = torch.nn.functional.linear(rows, L.to(rows.dtype), b.to(rows.dtype))
        return features

    def get_embedding_dimension(self) -> int:
        """Return the number of coordinates after the map."""
        return self.n_components

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write the maps to a folder."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=safe_serialization)

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        token: bool | str | None = None,
        cache_folder: str | None = None,
        revision: str | None = None,
        local_files_only: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Read the maps from a folder, or from the Hugging Face hub."""
        place = {
            "model_name_or_path": model_name_or_path,
            "subfolder": subfolder,
            "token": token,
            "cache_folder": cache_folder,
            "revision": revision,
            "local_files_only": local_files_only,
        }
        config = cls.load_config(**place)
        L = np.zeros((config["n_components"], config["n_features"]))
        query, document = (LinearMap(L, L[:, 0], unit) for unit in config["unit_rows"])
        module = cls((query, document))
        return cls.load_torch_weights(model=module, **place)

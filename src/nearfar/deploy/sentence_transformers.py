"""A metric or adapter as the last modules of a sentence-transformers model.

The modules are sentence-transformers' own, so that a saved model can be loaded without nearfar and
without ``trust_remote_code``.
"""

from __future__ import annotations

from typing import Any

from nearfar.deploy.linear_map import LinearMap, linear_maps

try:
    import torch
    from sentence_transformers.base.modules import Dense, Module, Router
    from sentence_transformers.sentence_transformer.modules import Normalize
except ImportError as error:
    raise ImportError(
        "metric_modules needs sentence-transformers; "
        'run pip install "nearfar[sentence-transformers]".'
    ) from error


def metric_modules(model: Any) -> list[Module]:
    """Return modules that map sentence embeddings so that Euclidean distance is the metric.

    Put them at the end of a pipeline: ``SentenceTransformer(modules=[*base, *metric_modules(m)])``.
    For an adapter, `encode_query` maps queries; `encode_document` and `encode` map documents.

    Parameters
    ----------
    model : Metric or adapter
        A linear map. An adapter has `transform_queries` and `transform_documents`.

    Examples
    --------
    >>> import torch
    >>> from nearfar import Metric
    >>> from nearfar.deploy.sentence_transformers import metric_modules
    >>> (dense,) = metric_modules(Metric([[1.0, 1.0]]))
    >>> dense({"sentence_embedding": torch.tensor([[2.0, 3.0]])})["sentence_embedding"].item()
    5.0
    """
    queries, documents = linear_maps(model)
    if queries is documents:
        return _modules(documents)
    return [
        Router.for_query_document(
            query_modules=_modules(queries),
            document_modules=_modules(documents),
            default_route="document",
        )
    ]


def _modules(linear_map: LinearMap) -> list[Module]:
    dense = Dense(
        linear_map.n_features,
        linear_map.n_components,
        activation_function=torch.nn.Identity(),
        init_weight=torch.tensor(linear_map.L, dtype=torch.float32),
        init_bias=torch.tensor(linear_map.b, dtype=torch.float32),
    )
    return [Normalize(), dense] if linear_map.unit_rows else [dense]

"""Coordinates of objects from triplets alone, without vectors."""

from nearfar.learners.ordinal.ordinal_embedding import OrdinalEmbedding

__all__ = ["OrdinalEmbedding"]

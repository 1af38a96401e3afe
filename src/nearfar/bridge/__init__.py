"""Change the embedding model without embedding the documents again."""

from nearfar.bridge.bridge import Bridge, Recall

__all__ = ["Bridge", "Recall"]

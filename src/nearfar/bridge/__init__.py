"""Change the embedding model without embedding the documents again."""

from nearfar.bridge.bridge import Bridge
from nearfar.bridge.recall import Recall

__all__ = ["Bridge", "Recall"]

"""Metrics, their file format, and what they say about features."""

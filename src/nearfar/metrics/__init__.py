"""Metrics, their file format, and feature importances."""

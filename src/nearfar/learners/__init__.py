"""Learners, one package per family."""

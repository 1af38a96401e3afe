"""Learners, one room for each family."""

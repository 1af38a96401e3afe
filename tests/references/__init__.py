"""Slow, plain reference implementations used as test oracles."""

"""Collect judgements of people: choose questions, keep answers, and know when there are enough."""

from nearfar.ask.chooser import Chooser, Judgement, Question

__all__ = ["Chooser", "Judgement", "Question"]

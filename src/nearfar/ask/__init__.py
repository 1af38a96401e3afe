"""Collect judgements of people: choose questions, keep answers, and know how good they are."""

from nearfar.ask.chooser import Chooser, Judgement, Question

__all__ = ["Chooser", "Judgement", "Question"]

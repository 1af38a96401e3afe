"""Collect judgements of people: choose questions, keep answers, and know when there are enough."""

from nearfar.ask.chooser import Chooser
from nearfar.ask.questions import Judgement, Question

__all__ = ["Chooser", "Judgement", "Question"]

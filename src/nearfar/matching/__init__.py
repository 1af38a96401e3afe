"""Which records of two tables are the same person, product or paper.

matcher        RecordMatcher
comparisons    fields, each compared in its own ways
model          the log-odds of comparisons
labelled       pairs to learn from, and pairs to calibrate on
records        tables as text
"""

from nearfar.matching.labelled import Candidates, LabelledPairs
from nearfar.matching.matcher import ComparedField, RecordMatcher
from nearfar.matching.records import Records

__all__ = ["Candidates", "ComparedField", "LabelledPairs", "RecordMatcher", "Records"]

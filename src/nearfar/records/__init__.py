"""Which records of two tables are the same person, product or paper.

matcher        RecordMatcher
comparisons    fields, each compared in its own ways
model          the log-odds of comparisons
labelled       pairs to learn from, and pairs to calibrate on
candidates     pairs that are worth a comparison
matches        records that are the same
assignment     one match for each record, or clusters
questions      pairs to begin with, and pairs to ask about
records        tables as text
"""

from nearfar.records.matcher import ComparedField, Matches, RecordMatcher
from nearfar.records.model import Candidates, LabelledPairs
from nearfar.records.records import Records, candidate_pairs

__all__ = [
    "Candidates",
    "ComparedField",
    "LabelledPairs",
    "Matches",
    "RecordMatcher",
    "Records",
    "candidate_pairs",
]

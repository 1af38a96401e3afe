"""`threshold`: a certified threshold on any score, from judged pairs of any model."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from nearfar.evidence.certify import OperatingPoint, PairEvidence, choose_threshold, parse_target
from nearfar.evidence.splits import joined_classes
from nearfar.runtime.parameters import check_parameters, number
from nearfar.typing import Bools


@dataclass(frozen=True)
class Threshold:
    """A threshold on a score: pairs with this score or a larger one are the same.

    Attributes
    ----------
    value : float
    target : str
        What is certified, such as "fmr<=0.01".
    rates : OperatingPoint
        Its bound, and the rates on the given pairs.
    assumes : str
        What must hold for the certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from nearfar import threshold
    >>> found = threshold(np.arange(2000) / 1000, np.arange(2000) >= 1000, target="fmr<=0.05")
    >>> found([0.2, 1.5])
    array([False,  True])
    """

    value: float
    target: str
    rates: OperatingPoint
    assumes: str

    def __call__(self, scores: ArrayLike) -> Bools:
        """Tell which pairs are the same."""
        return np.asarray(np.asarray(scores, dtype=np.float64) >= self.value)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain numbers and strings."""
        rest = {name: x for name, x in asdict(self.rates).items() if name != "threshold"}
        return {"threshold": self.value, "target": self.target, "assumes": self.assumes} | rest

    def __str__(self) -> str:
        rates = self.rates
        return (
            f"Pairs with a score of {self.value:.6g} or more are the same.\n"
            f"{rates.promise(self.target)}\n"
            f"On {rates.n_pairs} pairs: false match rate {rates.fmr:.3g}, recall "
            f"{100 * rates.recall:.1f} %, precision {100 * rates.precision:.1f} % if "
            f"{100 * rates.prevalence:.3g} % of pairs are the same.\n{self.assumes}"
        )


def threshold(
    scores: ArrayLike,
    same: ArrayLike,
    *,
    target: str = "fmr<=0.01",
    groups: ArrayLike | None = None,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Threshold:
    """Choose a threshold on a score that is certified to meet a target on new pairs.

    The score may come from any model. Pairs that repeat a thing are not independent, which the ids
    of the two things tell: things that pairs join as the same count as one.

    Parameters
    ----------
    scores : array-like of shape (n_pairs,)
        Larger for pairs that are more alike. Of distances, give the negative ones.
    same : array-like of bool of shape (n_pairs,)
        Judgements: whether the two things are the same.
    target : str, default="fmr<=0.01"
        "fmr<=0.01" (false match rate: the share of different pairs that are called the same),
        "precision>=0.99" or "recall>=0.9". A precision is for pairs of which as many are the same.
    groups : array-like of shape (n_pairs,), optional
        What pairs have in common, such as a user, instead of ids. Groups are independent.
    left, right : array-likes of shape (n_pairs,), optional
        Ids of the two things of each pair.
    confidence : float, default=0.95
        Confidence of the certificate, above 0.5 and below 1.

    Returns
    -------
    Threshold

    Raises
    ------
    TargetNotCertifiedError
        If the pairs cannot certify the target. It says how many would be needed, and which weaker
        target can be certified.

    Examples
    --------
    A semantic cache: 300 questions, each with a paraphrase and a question of another meaning.

    >>> import numpy as np
    >>> from nearfar import threshold
    >>> rng = np.random.default_rng(0)
    >>> question = np.tile(np.arange(300), 2)
    >>> same = np.arange(600) < 300
    >>> other = np.where(same, question + 1000, np.roll(question, 1))
    >>> scores = rng.normal(np.where(same, 0.9, 0.5), 0.1)
    >>> found = threshold(scores, same, target="fmr<=0.03", left=question, right=other)
    >>> 0.6 < found.value < 0.9, found.rates.bound <= 0.03
    (True, True)
    """
    check_parameters({"confidence": number(above=0.5, below=1.0)}, {"confidence": confidence})
    values = check_array(scores, ensure_2d=False, input_name="scores", dtype=np.float64).ravel()
    known = column_or_1d(same).astype(bool)
    check_consistent_length(values, known)
    if known.all() or not known.any():
        raise ValueError("Pairs that are the same and pairs that are different are needed.")
    if values[known].mean() < values[~known].mean():
        raise ValueError("Pairs that are the same have lower scores; of distances, give -scores.")
    if (left is None) != (right is None) or (groups is not None and left is not None):
        raise ValueError("Give the ids of both things (left and right), or groups, or neither.")
    units, shared = "pairs", groups
    assumes = "This assumes that no thing is in two of the pairs: ids would tell."
    if left is not None and right is not None:
        check_consistent_length(values, left, right)
        texts = [np.asarray(column_or_1d(ids), dtype=str) for ids in (left, right)]
        ids = np.unique(np.concatenate(texts), return_inverse=True)[1]
        classes = joined_classes(ids.reshape(2, -1).T, known)
        units, n = "things", len(np.unique(classes))
        assumes = f"Things that a pair calls the same count as one: {n} are left."
    else:
        own = np.arange(len(values)) if shared is None else column_or_1d(shared)
        check_consistent_length(values, own)
        code = np.unique(own, return_inverse=True)[1]
        classes = np.column_stack([code, code])
        if shared is not None:
            units = "groups"
            assumes = f"This assumes that the {code.max() + 1} groups have nothing in common."
    evidence = PairEvidence(-values, known, classes, units=units)
    bound = parse_target(target)
    rates = choose_threshold(evidence, bound, confidence=confidence)
    return Threshold(-rates.threshold, str(bound), rates, assumes)

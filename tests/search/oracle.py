"""The measures of ir_measures, from files that nearfar writes."""

from __future__ import annotations

from pathlib import Path

import ir_measures
import numpy as np
from ir_measures import AP, RR, R, nDCG

from nearfar import Relevance
from nearfar.search import Ranking, write_qrels, write_run

MEASURES = {"ndcg": nDCG, "mrr": RR, "recall": R, "average_precision": AP}


def by_ir_measures(
    folder: Path, ranking: Ranking, relevance: Relevance, cutoffs: list[int]
) -> dict[tuple[str, int], np.ndarray]:
    """Return each measure at each cutoff, one value for each query of the ranking."""
    write_run(folder / "run.trec", ranking)
    write_qrels(folder / "qrels.txt", relevance)
    wanted = {MEASURES[name] @ k: (name, k) for name in MEASURES for k in cutoffs}
    run = ir_measures.read_trec_run(str(folder / "run.trec"))
    qrels = ir_measures.read_trec_qrels(str(folder / "qrels.txt"))
    place = {str(query): i for i, query in enumerate(ranking.queries)}
    found = {key: np.full(len(ranking), np.nan) for key in wanted.values()}
    for metric in ir_measures.iter_calc(list(wanted), qrels, run):
        if metric.query_id in place:
            found[wanted[metric.measure]][place[metric.query_id]] = metric.value
    return found

"""Other packages that match records, as a process: for febrl.py.

    python match_records.py recordlinkage|dedupe|splink FOLDER

FOLDER has the records of known persons (0-left.csv, 0-right.csv if there are two tables), their
candidate pairs and which of them are the same (0.npz), and the same of other persons (1-...), whose
labels are not read. Scores of all pairs go to 0-scores.npy and 1-scores.npy.

recordlinkage: similarities of Jaro and Winkler of all fields, and a logistic regression. dedupe:
its text comparison of all fields and its classifier, learned from the known pairs. splink: levels
of Jaro and Winkler of all fields, with probabilities by expectation maximisation, which does not
use the labels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np


def read(folder: Path, number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], Any, Any]:
    """Return the records of both tables, pairs, and which are the same."""
    import csv

    tables = []
    for side in ("left", "right"):
        path = folder / f"{number}-{side}.csv"
        if path.exists():
            with path.open() as file:
                tables.append(
                    [{k: v or None for k, v in row.items()} for row in csv.DictReader(file)]
                )
    arrays = np.load(folder / f"{number}.npz")
    return tables[0], tables[-1], arrays["pairs"], arrays["same"]


def recordlinkage(parts: list[Any]) -> list[Any]:
    """Compare by recordlinkage, and learn a logistic regression."""
    import pandas as pd
    from recordlinkage import Compare, LogisticRegressionClassifier

    features = []
    for left, right, pairs, _ in parts:
        compare = Compare()
        for name in left[0]:
            compare.string(name, name, method="jarowinkler", label=name)
        index = pd.MultiIndex.from_arrays(pairs.T)
        one, two = pd.DataFrame(left), pd.DataFrame(right)
        features.append(compare.compute(index, one, two))
    same = parts[0][3]
    model = LogisticRegressionClassifier()
    model.fit(features[0], features[0].index[same])
    return [model.prob(each).to_numpy() for each in features]


def dedupe(parts: list[Any]) -> list[Any]:
    """Learn from known pairs by dedupe, and score."""
    import dedupe as package

    left, right, pairs, same = parts[0]
    fields = [package.variables.String(name, has_missing=True) for name in left[0]]
    linker = package.RecordLink(fields, num_cores=1)
    examples = [(left[i], right[j]) for i, j in pairs]
    rng = np.random.default_rng(0)
    distinct = rng.permutation(np.flatnonzero(~same))[: 2 * int(same.sum())]
    distances = linker.data_model.distances
    X = distances([examples[k] for k in (*np.flatnonzero(same), *distinct)])
    y = np.repeat([1, 0], [int(same.sum()), len(distinct)])
    linker.classifier.fit(X, y)
    scores = []
    for one, two, index, _ in parts:
        found = [
            linker.classifier.predict_proba(distances([(one[i], two[j]) for i, j in block]))[:, 1]
            for block in np.array_split(index, max(1, len(index) // 5000))
        ]
        scores.append(np.concatenate(found))
    return scores


def splink(parts: list[Any]) -> list[Any]:
    """Estimate the probabilities of splink's model, and score."""
    import pandas as pd
    import splink.comparison_library as library
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    scores = []
    for left, right, pairs, _ in parts:
        names = list(left[0])
        # Each pair is a block of its own, so that these candidates and no others are scored.
        frames = []
        for rows, column in ((left, 0), (right, 1)):
            frame = pd.DataFrame(rows).iloc[pairs[:, column]].reset_index(drop=True)
            frames.append(frame.assign(unique_id=range(len(pairs)), candidate=range(len(pairs))))
        settings = SettingsCreator(
            link_type="link_only",
            comparisons=[library.JaroWinklerAtThresholds(name, [0.9, 0.7]) for name in names],
            blocking_rules_to_generate_predictions=[block_on("candidate")],
        )
        database = DuckDBAPI()
        linker = Linker([database.register(frame) for frame in frames], settings)
        linker.training.estimate_u_using_random_sampling(max_pairs=1e6)
        for rule in (block_on("soc_sec_id"), block_on("date_of_birth")):
            linker.training.estimate_parameters_using_expectation_maximisation(rule)
        found = linker.inference.predict().as_pandas_dataframe()
        weight = np.full(len(pairs), -np.inf)
        weight[found["unique_id_l"].to_numpy()] = found["match_weight"].to_numpy()
        scores.append(weight)
    return scores


PACKAGES = {"recordlinkage": recordlinkage, "dedupe": dedupe, "splink": splink}


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    parts = [read(folder, number) for number in (0, 1)]
    for number, scores in enumerate(PACKAGES[name](parts)):
        np.save(folder / f"{number}-scores.npy", scores)


if __name__ == "__main__":
    main()

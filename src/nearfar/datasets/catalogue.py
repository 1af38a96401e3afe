"""One-line descriptions of known datasets.

A dataset in this table may need its file to be loaded. Files in a folder can be loaded whether or
not they are in this table.
"""

from __future__ import annotations

from collections.abc import Mapping

ALIASES: Mapping[str, str] = {"breast_cancer": "wdbc"}

# Files with several datasets: dataset name -> prefix of its arrays in the file.
COLLECTIONS: Mapping[str, Mapping[str, str]] = {
    "caltech4_bow_splits": {
        "caltech4_motor_air": "motor_air_",
        "caltech4_face_bg": "face_bg_",
    },
}

DESCRIPTIONS: Mapping[str, str] = {
    "adult": "Adult census income, categorical columns as integer codes",
    "alien_eggs_triplets": "Human judgements on egg shapes with a known one-dimensional truth",
    "artificial_characters": "Artificial characters, one row for each line segment",
    "australian_credit": "Statlog Australian credit approval",
    "balance_scale": "Balance scale, the full grid of weights and distances",
    "blood_transfusion": "Blood transfusion service centre",
    "breast_cancer_wisconsin": "Wisconsin breast cancer (original), nine cytology scores",
    "breast_cancer_wisconsin_with_id": "The same with the id number as a first column",
    "caltech101_gist_bow": "Caltech-101 pictures: GIST in X, visual words in bow500",
    "caltech4_face_bg": "Faces or background: 200 visual words of the first of ten splits",
    "caltech4_motor_air": "Motorbikes or airplanes: 200 visual words of the first of ten splits",
    "circles": "Three circles around each other in two columns, and eight columns of noise",
    "clinc150_emb256": "CLINC150 intents as sentence vectors; the last class is out of scope",
    "coil20": "COIL-20 objects, 32 x 32 grey pictures",
    "concentric_circles_50d": "Concentric circles in 48 columns of noise",
    "corel1k_33": "Corel-1k pictures: colour, edge and texture features",
    "cranfield_emb256": "Cranfield abstracts as vectors; queries in Q, judgements in qrels",
    "digits": "Handwritten digits, 8 x 8 grey pictures",
    "glass": "Glass identification",
    "heart_cleveland": "Heart disease, Cleveland; X has NaN, X_filled has medians instead",
    "helix": "Synthetic closed helix",
    "ionosphere": "Johns Hopkins ionosphere radar returns",
    "iris": "Fisher's iris",
    "letter": "Letter recognition, 16 statistics of a glyph",
    "mnist": "MNIST handwritten digits, 28 x 28",
    "newsgroups20_emb256": "20 newsgroups as text vectors",
    "optdigits": "Optical digits, 8 x 8, training and test rows together",
    "orl_112x92": "AT&T (ORL) faces, full pictures",
    "orl_32x32": "AT&T (ORL) faces, cropped to 32 x 32",
    "pima_diabetes": "Pima Indians diabetes; impossible zeros are hidden missing values",
    "segmentation_210": "Image segmentation, the 210 training rows",
    "segmentation_2310": "Image segmentation, all rows",
    "semeion": "Semeion handwritten digits, 16 x 16 binary",
    "shoes": "Human judgements on 24 shoe pictures, with eight principal components",
    "sonar": "Sonar returns, mines or rocks",
    "spect": "SPECT heart, 22 binary features",
    "spectf": "SPECTF heart, 44 counts",
    "twin_peaks": "Synthetic twin peaks",
    "usps_11000": "USPS digits, 16 x 16, 1100 of each",
    "usps_9298": "USPS digits, 16 x 16, with the standard split",
    "vehicle": "Statlog vehicle silhouettes",
    "waveform": "Breiman's waveforms, version 1",
    "wdbc": "Wisconsin diagnostic breast cancer",
    "wine": "Wine cultivars, unscaled",
    "yale_32x32": "Yale faces, cropped to 32 x 32",
    "yale_full": "Yale faces, full frames reduced to 61 x 80",
    "zappos_triplets": "Human judgements on shoe pictures, with network features",
}

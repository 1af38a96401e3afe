"""Linear maps at work elsewhere: faiss, ONNX, SQL, NumPy, and embedding models of other packages.

Nothing here needs the package it is for until it is used.
"""

"""One file for each paper: what its figures show, as runs that are stored."""

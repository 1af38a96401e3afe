"""One file for each paper: its cells as tasks."""

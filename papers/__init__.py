"""The five papers, cell by cell: printed numbers, protocols, readings and results."""

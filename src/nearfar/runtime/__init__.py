"""What a fit needs around the mathematics: history, progress, deadlines, threads, atomic writes."""

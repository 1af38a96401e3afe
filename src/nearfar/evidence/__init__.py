"""What may be stated: splits, intervals, gains, bounds and verdicts, as functions on arrays."""

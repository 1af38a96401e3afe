"""What a metric can be exported to: each file here that has a `TARGET` is a choice of `--to`."""

"""Files, frames and datasets as rows with supervision."""

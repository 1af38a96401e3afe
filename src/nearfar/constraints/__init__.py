"""Triplets, pairs and chunklets, and the strategies that make them from labels."""

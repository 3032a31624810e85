"""A bound from one training run with many canaries."""

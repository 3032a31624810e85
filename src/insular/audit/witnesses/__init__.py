"""Constructed examples that push a clipped sum to its worst case."""

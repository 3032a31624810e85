"""Exact inversion: from stored states back to the tokens."""

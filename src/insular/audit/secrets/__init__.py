"""Planted secrets: drawn, ranked, and held against a promise."""

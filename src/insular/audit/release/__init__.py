"""Releases of one step, and what an attack on them can find."""

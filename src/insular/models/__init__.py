"""Decoders: loading them frozen, finding their parts, adding low-rank adapters.

Importing the package imports nothing heavy; its modules import torch when they are asked for.
"""

"""Positive semidefinite matrices and draws from them."""

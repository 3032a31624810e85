"""A game against whole training runs."""

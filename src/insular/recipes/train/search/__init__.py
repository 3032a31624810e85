"""Private hyperparameter search: a random number of runs, of which one leaves."""

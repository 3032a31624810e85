"""Whether a model tells its members: scores, rates, shadow models, shift."""

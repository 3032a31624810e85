"""Whether a model tells an attribute beyond its population."""

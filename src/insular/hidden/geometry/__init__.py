"""What a model reads of a layer's states, and what release mechanisms are fitted to."""

"""A decoder cut at a layer: its states, what is needed to go on from them, their gradients."""

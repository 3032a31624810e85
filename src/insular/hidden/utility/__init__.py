"""What a release costs in next-token predictions, and the scale at which it costs so much."""

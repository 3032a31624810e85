"""Released hidden states: extraction, geometry, release mechanisms, utility and attackers."""

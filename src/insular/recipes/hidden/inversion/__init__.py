"""``insular hidden invert``: prompts read out of stored states."""

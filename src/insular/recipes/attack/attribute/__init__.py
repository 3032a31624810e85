"""``insular attack attribute``: an attribute guessed from a record's other fields."""

"""``insular attack training``: a run's own training, repeated with canaries."""

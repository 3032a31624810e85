"""``insular train``: from a plan to an adapter that may leave."""

"""``insular audit`` and ``insular replay``: a stack and its repairs, from a spec to a page."""

"""``insular attack canaries`` and ``extraction``: secrets planted, and ranked."""

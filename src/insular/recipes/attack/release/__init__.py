"""``insular attack release``: many releases of one audited step."""

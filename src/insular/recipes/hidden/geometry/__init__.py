"""``insular hidden geometry``: states before any release."""

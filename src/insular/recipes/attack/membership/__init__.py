"""``insular attack membership``: losses of members and of others."""

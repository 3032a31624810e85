"""``insular hidden sweep``: every mechanism at equal measured KL, against every attacker."""

"""``insular attack``: what a release or a run tells, from below; a package for each attack."""

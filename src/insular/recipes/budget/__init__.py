"""``insular budget``: what a planned run costs, and what a budget allows."""

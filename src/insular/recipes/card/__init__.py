"""``insular card``: what a finished run promises, as a release card."""

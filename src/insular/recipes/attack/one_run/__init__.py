"""``insular attack one-run``: one training with many canaries."""

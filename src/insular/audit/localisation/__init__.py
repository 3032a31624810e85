"""Where influence enters a model, and what happens when outlier sets are held fixed."""

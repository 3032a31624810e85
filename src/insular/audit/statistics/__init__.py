"""What scores prove of a leak: rates, bounds, trade-off curves. Torch-free."""

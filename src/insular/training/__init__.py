"""Private training, one stage a file: losses, per-record gradients, clipping."""

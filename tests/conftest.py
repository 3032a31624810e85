"""Every test computes on one thread, as each arm of an audit does.

With two threads this machine's float32 products of fewer than 8 rows round differently, and
bitwise comparisons of whole models would compare thread counts.
"""

import torch

torch.set_num_threads(1)

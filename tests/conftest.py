"""Every test computes on one thread, as each arm of an audit does.

With two threads this machine's float32 products of fewer than 8 rows round differently, and
bitwise comparisons of whole models would compare thread counts.
"""

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# the same examples every time; --hypothesis-profile=default looks for new ones
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A test that leaves more threads behind fails itself, not a later one."""
    yield
    left = torch.get_num_threads()
    torch.set_num_threads(1)
    assert left == 1

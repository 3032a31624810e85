"""Every test computes on one thread, as each arm of an audit does.

With two threads this machine's float32 products of fewer than 8 rows round differently, and
bitwise comparisons of whole models would compare thread counts. And no test asks a network for
anything: what runs here must run where there is none.
"""

import socket
from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
# the same examples every time; --hypothesis-profile=default looks for new ones
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


_LOOPBACK = {"localhost", "127.0.0.1", "::1", ""}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test during which a name outside this machine is looked up fails."""
    asked: list[str] = []
    look_up = socket.getaddrinfo

    def noted(host: str | bytes | None, *place: object, **more: object) -> object:
        name = host.decode() if isinstance(host, bytes) else host or ""
        if name not in _LOOPBACK:
            asked.append(name)
        return look_up(host, *place, **more)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    yield
    assert asked == []


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A test that leaves more threads behind fails itself, not a later one."""
    yield
    left = torch.get_num_threads()
    torch.set_num_threads(1)
    assert left == 1

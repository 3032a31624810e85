"""The keystream: random access, no two words alike, nothing that another seed can move."""

import copy
import hashlib
import hmac
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.errors import InvalidArgumentError
from insular.mechanisms.keystream import MAX_WORDS, Keystream, SecureStream, SeededStream

PLACES = st.tuples(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    st.integers(0, 2**70),
    st.integers(1, 2**40),
)


def rotated(x: int, by: int) -> int:
    return ((x << by) | (x >> (32 - by))) & 0xFFFFFFFF


def slow_chacha20(key: bytes, block: int) -> bytes:
    """One block of RFC 8439 with an all-zero nonce, by the definition."""
    words = [int.from_bytes(b"expand 32-byte k"[i : i + 4], "little") for i in range(0, 16, 4)]
    words += [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)]
    state = [*words, block, 0, 0, 0]
    x = list(state)
    columns = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15)]
    diagonals = [(0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for _ in range(10):
        for a, b, c, d in columns + diagonals:
            for p, q, r, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[p] = (x[p] + x[q]) & 0xFFFFFFFF
                x[r] = rotated(x[r] ^ x[p], by)
    mixed = [(one + other) & 0xFFFFFFFF for one, other in zip(x, state, strict=True)]
    return b"".join(word.to_bytes(4, "little") for word in mixed)


def test_words_are_the_keystream_of_the_definition() -> None:
    key = hashlib.sha256(b"insular seeded keystream 1: not secret|7").digest()
    inner = hmac.new(key, b"3 2 noise", hashlib.sha256).digest()
    expected = slow_chacha20(inner, 0) + slow_chacha20(inner, 1) + slow_chacha20(inner, 2)
    found = SeededStream(7).words(20, purpose="noise", step=3, start=2)
    assert found.astype("<u8").tobytes() == expected[:160]


def test_words_do_not_depend_on_what_was_asked_before_nor_on_other_seeds() -> None:
    first = SeededStream(1)
    early = [first.words(50, purpose="noise", step=step) for step in range(4)]
    torch.manual_seed(123)
    np.random.seed(123)
    random.seed(123)
    resumed = SeededStream(1)
    assert np.array_equal(resumed.words(50, purpose="noise", step=3), early[3])
    assert np.array_equal(resumed.words(20, purpose="noise", step=1), early[1][:20])


@settings(max_examples=200, deadline=None)
@given(one=PLACES, other=PLACES, seed=st.integers(0, 2**64))
def test_different_places_share_no_words(
    one: tuple[str, int, int], other: tuple[str, int, int], seed: int
) -> None:
    """Of honest words, two sets of 8 meet with probability below 64 2^-64."""
    stream = SeededStream(seed)
    (a, b), same = [
        [stream.words(8, purpose=p, step=k, start=s) for p, k, s in (one, other)],
        one == other,
    ]
    assert np.array_equal(a, b) == same
    assert bool(set(a.tolist()) & set(b.tolist())) == same
    assert not np.array_equal(a, SeededStream(seed + 1).words(8, purpose=one[0], step=one[1]))


def test_places_that_read_alike_differ() -> None:
    stream = SeededStream(0)
    first = stream.words(4, purpose="1 1", step=1, start=11)
    assert not np.array_equal(first, stream.words(4, purpose="1 1 1", step=1, start=1))
    assert not np.array_equal(first, stream.words(4, purpose="1", step=11, start=1))


def test_secure_streams_never_equal() -> None:
    streams = [SecureStream() for _ in range(50)]
    words = [tuple(s.words(2, purpose="noise", step=0).tolist()) for s in streams]
    assert len(set(words)) == 50
    assert streams[0].source == "secure"
    assert SeededStream(0).source == "seeded"


def test_a_secure_stream_gives_no_words_twice() -> None:
    stream = SecureStream()
    stream.words(10, purpose="noise", step=4)
    stream.words(10, purpose="noise", step=4, start=2)
    stream.words(10, purpose="poisson", step=4)
    with pytest.raises(InvalidArgumentError, match=r"new to a SecureStream.*'noise', step=4, star"):
        stream.words(3, purpose="noise", step=4)


def test_a_secure_key_is_neither_copied_nor_stored() -> None:
    stream = SecureStream()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="must not be copied or stored"):
            attempt(stream)
    assert stream._key.hex() not in repr(stream)


def test_a_forked_process_cannot_draw_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SecureStream()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InvalidArgumentError, match="must be used in the process that made it"):
        stream.words(1, purpose="noise", step=0)


def test_another_process_draws_what_this_one_does() -> None:
    code = (
        "from insular.mechanisms.keystream import SeededStream\n"
        "print(SeededStream(5).words(3, purpose='noise', step=9, start=2).tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = SeededStream(5).words(3, purpose="noise", step=9, start=2).tolist()
    assert done.stdout.strip() == str(here)


@pytest.mark.parametrize("make", [lambda: SeededStream(3), SecureStream])
def test_bits_are_even(make: Callable[[], Keystream]) -> None:
    """64 bits, each 1 in half of 40,000 words: six standard deviations; false alarm 64 2e-9."""
    words = make().words(40_000, purpose="test", step=0)
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 6 * 0.5 / 200
    assert len(np.unique(words)) == 40_000


def test_bad_arguments() -> None:
    stream = SeededStream(0)
    assert len(stream.words(0, purpose="none", step=0)) == 0
    for arguments, rule in (
        ({"n": -1, "step": 0}, "n must be an integer >= 0"),
        ({"n": 1, "step": -1}, "step must be an integer >= 0"),
        ({"n": 1, "step": 0, "start": 0}, "start must be an integer >= 1"),
        ({"n": MAX_WORDS + 1, "step": 0}, "n must be at most"),
    ):
        with pytest.raises(InvalidArgumentError, match=rule):
            stream.words(arguments.pop("n"), purpose="x", **arguments)
    with pytest.raises(InvalidArgumentError, match="seed must be an integer >= 0"):
        SeededStream(-1)

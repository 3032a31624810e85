"""The one source of every draw and all protective noise: a ChaCha20 keystream, read at any place.

Words are a function of the key and of what they are for, so nothing has to be saved to resume, and
no generator that other code seeds has a part in them.
"""

import hashlib
import hmac
import os
from abc import ABC, abstractmethod
from typing import NoReturn, final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from jaxtyping import UInt64

from insular import _check
from insular.accounting import NoiseSource
from insular.errors import InvalidArgumentError

MAX_WORDS = 2**34
"""Words of one purpose, step and start: half of what the cipher's 32-bit block counter allows."""
_SEED_LABEL = b"insular seeded keystream 1: not secret"


class Keystream(ABC):
    """Words that nobody without the key can tell from even ones.

    Purpose, step and start are hashed with the key (HMAC-SHA256) into a key of their own, whose
    ChaCha20 keystream gives the words.

    Guarantees:
        * Random access: the words depend on key, purpose, step and start alone, not on what was
          asked before, nor on any seed of torch, numpy or random.
        * Different purposes, steps or starts share no words; fewer words are a prefix of more.
    """

    @property
    @abstractmethod
    def source(self) -> NoiseSource:
        """What events are told."""

    @abstractmethod
    def _admit(self, place: tuple[str, int, int]) -> bytes:
        """The key, if these words may be given."""

    @final
    def words(
        self, n: int, *, purpose: str, step: int, start: int = 1
    ) -> UInt64[np.ndarray, " word"]:
        """Even words of 64 bits.

        Args:
            n: How many.
            purpose: What for, such as ``noise``.
            step: From 0.
            start: Number of this start of the run, from 1.

        Returns:
            The words.

        Raises:
            InvalidArgumentError: If a secure stream gave words for the same purpose, step and start
                before.
        """
        _check.at_least(0, n=n, step=step)
        _check.at_least(1, start=start)
        if n > MAX_WORDS:
            raise InvalidArgumentError(f"n must be at most {MAX_WORDS} words, got n={n}.")
        # numbers first: no purpose can be read as one of them
        label = f"{step} {start} {purpose}".encode()
        key = hmac.digest(self._admit((purpose, step, start)), label, hashlib.sha256)
        cipher = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
        found = np.zeros(n, dtype="<u8")
        place = found.view(np.uint8).data
        cipher.update_into(place, place)
        return found.astype(np.uint64, copy=False)


@final
class SecureStream(Keystream):
    """A key from the operating system that lives and dies with this object.

    Guarantees:
        * Two streams share nothing: a run that is started again draws afresh.
        * No words are given twice, so no two releases carry the same noise.
        * The key is in no file: the object refuses to be pickled or copied, and to be used in a
          forked process, which would draw the same words.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._process = os.getpid()
        self._given: set[tuple[str, int, int]] = set()

    @property
    def source(self) -> NoiseSource:
        """``secure``."""
        return "secure"

    def _admit(self, place: tuple[str, int, int]) -> bytes:
        """Refuse words that were given before."""
        if os.getpid() != self._process:
            raise InvalidArgumentError(
                f"a SecureStream must be used in the process that made it, {self._process}, got "
                f"process {os.getpid()}; make one there."
            )
        if place in self._given:
            purpose, step, start = place
            raise InvalidArgumentError(
                "purpose, step and start must be new to a SecureStream, got "
                f"purpose={purpose!r}, step={step}, start={start} again; two releases with the "
                "same noise show their difference."
            )
        self._given.add(place)
        return self._key

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a SecureStream must not be copied or stored, its key least of all.")


@final
class SeededStream(Keystream):
    """A key made of a number: for tests and audits, never for a release that is meant to protect.

    Who knows the seed takes the noise away.

    Guarantees:
        * The same seed gives the same words, in any process and after any resume.
        * Events say ``seeded``, so an accountant calls their cost an estimate.
    """

    def __init__(self, seed: int) -> None:
        _check.at_least(0, seed=seed)
        self._key = hashlib.sha256(_SEED_LABEL + b"|" + str(seed).encode()).digest()

    @property
    def source(self) -> NoiseSource:
        """``seeded``."""
        return "seeded"

    def _admit(self, place: tuple[str, int, int]) -> bytes:
        """Any words, any number of times."""
        return self._key

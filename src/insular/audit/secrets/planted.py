"""Planted secrets: templates, the space that each secret is drawn from, and who gets which."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, final

from insular import _check
from insular.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

ALPHABETS = {"digits": "0123456789", "letters": "abcdefghijklmnopqrstuvwxyz"}
"""What a secret may be spelled with."""
NAME = "{name}"
_SECRET = re.compile(r"\{(\d+) (digits|letters)\}")
_LARGEST = 2**62
_SYLLABLES = tuple(c + v for c in "bdfgklmnprstvz" for v in "aeiou")


@final
@dataclass(frozen=True, kw_only=True)
class SecretSpace:
    """Every secret that could have been drawn: the words of one length over an alphabet."""

    alphabet: str
    """Its symbols."""
    length: int
    """Symbols of a secret."""

    @property
    def size(self) -> int:
        """Number of secrets."""
        return len(self.alphabet) ** self.length

    def spell(self, value: int) -> str:
        """The secret at a position of the space, leading symbols included.

        Args:
            value: From 0, below ``size``.

        Returns:
            The secret.
        """
        found = []
        for _ in range(self.length):
            value, symbol = divmod(value, len(self.alphabet))
            found.append(self.alphabet[symbol])
        return "".join(reversed(found))

    def value_of(self, secret: str) -> int:
        """The position of a secret; the inverse of ``spell``.

        Args:
            secret: A member of the space.

        Returns:
            Its position.

        Raises:
            InvalidArgumentError: If it is no member. The secret is not printed.
        """
        if len(secret) != self.length or not set(secret) <= set(self.alphabet):
            raise InvalidArgumentError(
                f"a secret must have {self.length} symbols of the template's alphabet, and one has"
                " not; take the canaries.json that insular wrote."
            )
        value = 0
        for symbol in secret:
            value = value * len(self.alphabet) + self.alphabet.index(symbol)
        return value


@final
@dataclass(frozen=True, kw_only=True)
class SecretTemplate:
    """A sentence with one place for a secret, and at most one for an invented name."""

    text: str
    """Such as ``The access code of {name} is {6 digits}``."""
    space: SecretSpace
    """What the secret is drawn from, evenly."""
    before: str
    """The text in front of the secret."""
    after: str
    """The text behind it."""

    @property
    def named(self) -> bool:
        """Whether the secret's owner has a name in front of the secret."""
        return NAME in self.before

    def prompt(self, name: str) -> str:
        """What an attacker knows: all in front of the secret.

        Args:
            name: The invented name.

        Returns:
            The text.
        """
        return self.before.replace(NAME, name)

    def fill(self, name: str, secret: str) -> str:
        """The planted text.

        Args:
            name: The invented name.
            secret: The secret.

        Returns:
            The text.
        """
        return self.prompt(name) + secret + self.after.replace(NAME, name)


@final
@dataclass(frozen=True, kw_only=True)
class PlannedSecret:
    """One secret and how often it is planted. Its repr does not show it."""

    id: str
    """Name in every report, such as ``canary-007``."""
    name: str = field(repr=False)
    """The invented name in its text."""
    secret: str = field(repr=False)
    """The secret."""
    repeats: int
    """Rows that hold it; 0 for a control, which is in no row."""


def parse_template(text: str) -> SecretTemplate:
    """Read a template.

    Guarantees:
        * Exactly one secret, of a space whose size is known.

    Args:
        text: A sentence with ``{N digits}`` or ``{N letters}``, and ``{name}`` if wanted.

    Returns:
        The template.

    Raises:
        InvalidArgumentError: If it has no secret or several, nothing in front of it, or another
            place in braces.
    """
    places = list(_SECRET.finditer(text))
    others = _SECRET.sub("", text).replace(NAME, "", 1)
    if len(places) != 1 or "{" in others or "}" in others:
        raise InvalidArgumentError(
            "template must have one secret such as {6 digits} or {8 letters}, at most one {name}"
            f" and no other braces, got template={text!r}."
        )
    start, end = places[0].span()
    if not text[:start].strip():
        raise InvalidArgumentError(
            f"template must have text in front of its secret, got template={text!r}; an attacker"
            " needs a beginning to continue."
        )
    space = SecretSpace(alphabet=ALPHABETS[places[0][2]], length=int(places[0][1]))
    if space.length < 1 or space.length > 60 or space.size > _LARGEST:
        raise InvalidArgumentError(
            f"template must have a secret of 1 to 2^62 possible values, got template={text!r};"
            " shorten the secret."
        )
    return SecretTemplate(text=text, space=space, before=text[:start], after=text[end:])


def draw_secrets(
    template: SecretTemplate, *, n_secrets: int, repeats: Sequence[int], seed: int
) -> tuple[PlannedSecret, ...]:
    """Draw secrets and toss which half is planted, and how often each.

    Guarantees:
        * Secrets are independent and even over the space; names are different and not anyone's.
        * Half of them, rounded down, are controls that stand in no row.
        * Each repetition count gets as many of the others as the next one, or one more.
        * The same arguments give the same secrets.

    Args:
        template: The sentence.
        n_secrets: Secrets, controls included; at least two for each repetition count.
        repeats: Repetition counts, each at least 1 and once.
        seed: Of the draw.

    Returns:
        The secrets, in the order of their ids.

    Raises:
        InvalidArgumentError: If an argument breaks its rule.
    """
    import numpy as np  # not needed to read a template

    _check.at_least(1, repeats=min(repeats, default=0))
    _check.at_least(0, seed=seed)
    if len(set(repeats)) < len(repeats) or n_secrets < 2 * len(repeats):
        raise InvalidArgumentError(
            "secrets must be at least two for each repetition count, and the counts different, got"
            f" secrets={n_secrets} and repeat={','.join(map(str, repeats))}."
        )
    rng = np.random.default_rng([seed, 0x5EC])
    n_planted = n_secrets - n_secrets // 2
    how_often = [repeats[i % len(repeats)] for i in range(n_planted)] + [0] * (n_secrets // 2)
    rng.shuffle(how_often)
    names = _names(rng, n_secrets)
    values = rng.integers(template.space.size, size=n_secrets)
    return tuple(
        PlannedSecret(
            id=f"canary-{i:03d}",
            name=names[i],
            secret=template.space.spell(int(values[i])),
            repeats=int(how_often[i]),
        )
        for i in range(n_secrets)
    )


def _names(rng: "np.random.Generator", n: int) -> list[str]:
    """Different invented names of two words."""
    found: dict[str, None] = {}
    while len(found) < n:
        parts = rng.choice(len(_SYLLABLES), size=4)
        first, last = ("".join(_SYLLABLES[i] for i in half) for half in (parts[:2], parts[2:]))
        found[f"{first.capitalize()} {last.capitalize()}"] = None
    return list(found)

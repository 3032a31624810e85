"""How likely a decoder finds texts, and where a secret ranks in its space: tree search, pruned."""

import copy
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from insular import _check
from insular.audit.secrets.planted import SecretSpace
from insular.errors import InvalidArgumentError
from insular.models.loading import Decoder
from insular.records import TokenisedRecord
from insular.records.batches import collate

TIE_NATS = 1e-4
"""Log-likelihoods closer than this are equal: float32 logits of other batch shapes round apart."""
ROWS = 64
"""Prefixes in one forward; their key-value caches are held as well."""
_PROBES = 16


@final
@dataclass(frozen=True, kw_only=True)
class SpelledSpace:
    """A space whose secrets are spelled one token a symbol, after one prompt."""

    prompt: tuple[int, ...]
    """Tokens of the prompt, at least one."""
    symbols: tuple[int, ...]
    """Token of each symbol of the alphabet."""
    length: int
    """Symbols of a secret."""

    @property
    def size(self) -> int:
        """Number of secrets."""
        return len(self.symbols) ** self.length

    def tokens(self, value: int) -> list[int]:
        """Tokens of the secret at a position."""
        digits = []
        for _ in range(self.length):
            value, digit = divmod(value, len(self.symbols))
            digits.append(self.symbols[digit])
        return digits[::-1]


@final
@dataclass(frozen=True, kw_only=True)
class TokenScore:
    """A text under a decoder."""

    log_likelihood_nats: float
    """Sum over the scored tokens."""
    greedy: bool
    """Whether each of them is the likeliest one at its place."""


@final
@dataclass(frozen=True, kw_only=True)
class Placed:
    """How many candidates stand in front of a secret."""

    above: int
    """Candidates likelier by more than the tie."""
    tied: int
    """Candidates within the tie, the secret itself left out."""
    n_prefixes: int
    """Prefixes that the model was asked about."""
    met_nats: float | None
    """The secret's own log-likelihood as the search found it; None where it did not pass it."""
    complete: bool
    """Whether the search ended before its limit."""


def spell_space(decoder: Decoder, prompt: str, space: SecretSpace) -> SpelledSpace | None:
    """The space as a tree of tokens, where the tokeniser spells it symbol by symbol.

    Guarantees:
        * Not None only if every symbol at every place, and each of 16 mixed secrets, is one token
          of its own after the same prompt.

    Args:
        decoder: Whose tokeniser.
        prompt: Text in front of the secret.
        space: The space.

    Returns:
        The tree; None where the tokeniser joins symbols.
    """
    length = space.length
    symbols: list[int] = []
    heads = set()
    for symbol in space.alphabet:
        ids = decoder.encode(prompt + symbol * length)
        if len(ids) <= length or len(set(ids[-length:])) != 1:
            return None
        symbols.append(ids[-1])
        heads.add(tuple(ids[:-length]))
    if len(heads) != 1 or len(set(symbols)) != len(symbols):
        return None
    spelled = SpelledSpace(prompt=heads.pop(), symbols=tuple(symbols), length=length)
    rng = np.random.default_rng(0)
    for value in rng.integers(space.size, size=_PROBES).tolist():
        if tuple(decoder.encode(prompt + space.spell(value))) != (
            *spelled.prompt,
            *spelled.tokens(value),
        ):
            return None
    return spelled


def score_tokens(
    decoder: Decoder, rows: Sequence[Sequence[int]], *, given: Sequence[int], tokens: int = 2048
) -> list[TokenScore]:
    """The log-likelihood of token rows, each after its first tokens.

    Guarantees:
        * The same numbers, up to rounding, whatever rows share a forward.

    Args:
        decoder: The model.
        rows: Token ids.
        given: For each row, how many tokens are given rather than scored; at least 1.
        tokens: Most tokens of one forward, padding included.

    Returns:
        One score for each row, in their order.

    Raises:
        InvalidArgumentError: If a row is longer than the model's context.
    """
    for row in rows:
        _check.at_least(2, tokens_of_a_text=len(row))
    longest = max(map(len, rows), default=0)
    if longest > decoder.context_tokens:
        raise InvalidArgumentError(
            f"texts must fit the model's context of {decoder.context_tokens} tokens, got one of"
            f" {longest}; shorten the template."
        )
    found: list[TokenScore | None] = [None] * len(rows)
    for part in _by_length(rows, tokens):
        records = [TokenisedRecord(id=str(i), owner=str(i), tokens=tuple(rows[i])) for i in part]
        batch = collate(records, pad_token_id=decoder.pad_token_id).to(decoder.model.device)
        with torch.no_grad():
            logits = decoder.model(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                position_ids=batch.position_ids,
                use_cache=False,
            ).logits
        for at, i in enumerate(part):
            targets = batch.input_ids[at, given[i] : len(rows[i])]
            mine = logits[at, given[i] - 1 : len(rows[i]) - 1].double()
            scores = mine.log_softmax(-1).gather(-1, targets[:, None]).sum()
            found[i] = TokenScore(
                log_likelihood_nats=float(scores),
                greedy=bool((mine.argmax(-1) == targets).all()),
            )
    return [score for score in found if score is not None]


def place_secret(
    decoder: Decoder,
    space: SpelledSpace,
    value: int,
    *,
    score: float,
    candidates: np.ndarray | None = None,
    most_prefixes: int | None = None,
    tie: float = TIE_NATS,
) -> Placed:
    """Count the candidates that are likelier than a secret, sharing the work of equal beginnings.

    A depth-first search over beginnings, each with its key-value cache: a beginning that is less
    likely than the whole secret is not followed, since log-probabilities only fall.

    Guarantees:
        * The counts of scoring every candidate by itself, ties within ``tie`` told apart.
        * One forward for each beginning that is followed, none for whole candidates.

    Args:
        decoder: The model.
        space: The tree.
        value: Position of the secret.
        score: Its log-likelihood after the prompt, in nats.
        candidates: Positions to rank among, sorted, repeats counted; None for all others.
        most_prefixes: Give up after so many; None for no limit.
        tie: Difference that counts as none, in nats.

    Returns:
        The counts; those of an unfinished search are of what it saw.
    """
    n, base = space.length, len(space.symbols)
    symbols = torch.tensor(space.symbols, device=decoder.model.device)
    above = tied = asked = 0
    met: float | None = None
    start = torch.tensor([space.prompt], device=decoder.model.device)
    first = _Branch(depth=0, values=np.zeros(1, np.int64), scores=np.zeros(1), tokens=start)
    stack = [first]
    while stack:
        branch = stack.pop()
        if most_prefixes is not None and asked + len(branch.values) > most_prefixes:
            return Placed(above=above, tied=tied, n_prefixes=asked, met_nats=met, complete=False)
        asked += len(branch.values)
        logits, cache = _forward(decoder.model, branch)
        steps = logits.double().log_softmax(-1)[:, symbols].cpu().numpy()
        scores = (branch.scores[:, None] + steps).ravel()
        values = (branch.values[:, None] * base + np.arange(base)).ravel()
        parents, digits = np.divmod(np.arange(len(values)), base)
        if branch.depth == n - 1:
            own = values == value
            met = float(scores[own][0]) if own.any() else met
            weights = _members(values, 1, candidates) - (own if candidates is None else 0)
            likelier = scores > score + tie
            # a sampled candidate that is the secret itself ties, whatever rounding says
            equal = (np.abs(scores - score) <= tie) | own
            above += int(weights[likelier & ~own].sum())
            tied += int(weights[equal].sum())
            continue
        width = base ** (n - 1 - branch.depth)
        alive = np.flatnonzero((scores >= score - tie) & (_members(values, width, candidates) > 0))
        for part in _parts(alive, ROWS):
            stack.append(
                _Branch(
                    depth=branch.depth + 1,
                    values=values[part],
                    scores=scores[part],
                    tokens=symbols[torch.from_numpy(digits[part]).to(symbols.device)][:, None],
                    cache=cache,
                    rows=parents[part],
                )
            )
    return Placed(above=above, tied=tied, n_prefixes=asked, met_nats=met, complete=True)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class _Branch:
    """Beginnings of one length, and the cache of those that they extend by a token."""

    depth: int
    values: np.ndarray
    scores: np.ndarray
    tokens: torch.Tensor
    cache: Any = None
    rows: np.ndarray | None = None


def _forward(model: Any, branch: _Branch) -> tuple[torch.Tensor, Any]:
    """Logits after each beginning, and their own cache."""
    word = _cache_word(model)
    more: dict[str, Any] = {}
    if branch.cache is not None and branch.rows is not None:
        own = copy.deepcopy(branch.cache)  # siblings extend the same one
        own.batch_select_indices(torch.from_numpy(branch.rows).to(branch.tokens.device))
        more[word] = own
    with torch.no_grad():
        out = model(input_ids=branch.tokens, use_cache=True, **more)
    return out.logits[:, -1], getattr(out, word)


def _cache_word(model: Any) -> str:
    """What this transformers calls the cache."""
    plain = model.get_base_model() if hasattr(model, "get_base_model") else model
    known = inspect.signature(plain.forward).parameters
    return "cache" if "cache" in known else "past_key_values"


def _members(values: np.ndarray, width: int, candidates: np.ndarray | None) -> np.ndarray:
    """How many candidates begin as each value does, for the ``width`` secrets behind it."""
    if candidates is None:
        return np.full(len(values), width, dtype=np.int64)
    ends = np.searchsorted(candidates, (values + 1) * width, side="left")
    return ends - np.searchsorted(candidates, values * width, side="left")


def _parts(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Rows in parts of at most ``size``."""
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


def _by_length(rows: Sequence[Sequence[int]], tokens: int) -> Iterator[list[int]]:
    """Positions of rows in batches of similar length."""
    part: list[int] = []
    for i in sorted(range(len(rows)), key=lambda i: len(rows[i])):
        if part and len(rows[i]) * (len(part) + 1) > tokens:
            yield part
            part = []
        part.append(i)
    if part:
        yield part

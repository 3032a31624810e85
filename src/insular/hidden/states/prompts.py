"""Prompts by digest, run once and held: their states, and what is needed to go on from them."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.kept import KeptForward
from insular.records.batches import PaddingSide, collate
from insular.records.tokens import TokenisedRecord

LabelRule = Literal["last_token", "none"]
"""Where data labels come from: each record's last token, which its prompt then lacks, or none."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class HeldPrompts:
    """Prompts after one forward each. Immutable: every measurement reads it, none changes it."""

    record_ids: tuple[str, ...]
    """Distinct prompts, in the order of the records."""
    digests: tuple[str, ...]
    """SHA-256 of each prompt's tokens."""
    duplicate_ids: tuple[str, ...]
    """Records left out because an earlier one has the same prompt."""
    labels: Int[Tensor, " record"] | None
    """Each record's next token in the data, if the records held one."""
    layers: tuple[int, ...]
    """Layers that can be read and gone on from."""
    batches: tuple[KeptForward, ...]
    """The forwards."""
    rows: tuple[tuple[int, ...], ...]
    """For each batch, the place of its records among ``record_ids``."""

    @property
    def n_prompts(self) -> int:
        """Number of distinct prompts."""
        return len(self.record_ids)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the prompts' digests, whatever their order."""
        return hashlib.sha256("\n".join(sorted(self.digests)).encode()).hexdigest()

    def states(self, layer: int) -> Float[Tensor, "record hidden"]:
        """The last token's states, in float32.

        Args:
            layer: One of ``layers``.

        Returns:
            One row per prompt, in the order of ``record_ids``.

        Raises:
            InvalidArgumentError: If the layer was not held.
        """
        if layer not in self.layers:
            raise InvalidArgumentError(
                f"layer must be one of the held layers {self.layers}, got layer={layer}."
            )
        return self._ordered([kept.states[layer].float() for kept in self.batches])

    def logits(self) -> Float[Tensor, "record vocab"]:
        """The unchanged model's scores of the next token.

        Returns:
            One row per prompt, in the order of ``record_ids``.
        """
        return self._ordered([kept.logits for kept in self.batches])

    def _ordered(self, parts: Sequence[Tensor]) -> Tensor:
        """Rows of the batches, in the order of the prompts."""
        places = torch.tensor([row for rows in self.rows for row in rows])
        return torch.cat(list(parts))[torch.argsort(places).to(parts[0].device)]


def hold_prompts(
    decoder: SplitDecoder,
    records: Sequence[TokenisedRecord],
    *,
    layers: Sequence[int],
    labels: LabelRule,
    pad_token_id: int = 0,
    batch_tokens: int = 2048,
    padding_side: PaddingSide = "right",
    trajectories: bool = False,
) -> HeldPrompts:
    """Run prompts once and keep what is needed to go on from the layers.

    Guarantees:
        * Two records with the same prompt are held once; the second's id is reported.
        * One call serves every layer, label, mechanism and scale.

    Args:
        decoder: The decoder.
        records: Tokenised records; with labels, of at least 2 tokens.
        layers: Layers to release.
        labels: Whether each record's last token is its label, and no part of its prompt.
        pad_token_id: Token id that fills up.
        batch_tokens: Tokens in a batch, padding included; a longer prompt runs alone.
        padding_side: ``"right"`` or ``"left"``.
        trajectories: Whether the states of every position are kept too.

    Returns:
        The held prompts, with keys and values in memory.

    Raises:
        InvalidArgumentError: If no record is given, or one is too short for its label.
    """
    _check.one_of(("last_token", "none"), labels=labels)
    decoder.check_layers(*layers)
    prompts = list(records)
    if labels == "last_token":
        short = [one.id for one in records if len(one.tokens) < 2]
        if short:
            raise InvalidArgumentError(
                f"records must have at least 2 tokens, a prompt and its label, got 1 in "
                f"id={short[0]!r} and {len(short) - 1} more; drop them or use labels='none'."
            )
        prompts = [replace(one, tokens=one.tokens[:-1]) for one in records]
    kept, dropped = distinct(prompts)
    last = {one.id: one.tokens[-1] for one in records}
    held: list[KeptForward] = []
    places = batch_places([len(one.tokens) for one in kept], batch_tokens=batch_tokens)
    for rows in places:
        batch = collate(
            [kept[row] for row in rows],
            pad_token_id=pad_token_id,
            padding_side=padding_side,
            device=decoder.device,
        )
        held.append(decoder.run(batch, layers=layers, trajectories=trajectories))
    return HeldPrompts(
        record_ids=tuple(one.id for one in kept),
        digests=tuple(prompt_digest(one.tokens) for one in kept),
        duplicate_ids=dropped,
        labels=torch.tensor([last[one.id] for one in kept], device=decoder.device)
        if labels == "last_token"
        else None,
        layers=tuple(layers),
        batches=tuple(held),
        rows=places,
    )


def prompt_digest(tokens: Sequence[int]) -> str:
    """SHA-256 of a prompt's token ids.

    Args:
        tokens: Token ids.

    Returns:
        The digest in hex.
    """
    return hashlib.sha256(b"".join(n.to_bytes(8, "big", signed=True) for n in tokens)).hexdigest()


def distinct(
    prompts: Sequence[TokenisedRecord],
) -> tuple[list[TokenisedRecord], tuple[str, ...]]:
    """Leave out prompts whose tokens came before.

    Args:
        prompts: Tokenised prompts.

    Returns:
        The first of each, in order, and the ids of those left out.

    Raises:
        InvalidArgumentError: If there is no prompt.
    """
    if not prompts:
        raise InvalidArgumentError("records must hold at least one prompt, got none.")
    seen: set[tuple[int, ...]] = set()
    kept: list[TokenisedRecord] = []
    dropped: list[str] = []
    for one in prompts:
        if one.tokens in seen:
            dropped.append(one.id)
        else:
            seen.add(one.tokens)
            kept.append(one)
    return kept, tuple(dropped)


def batch_places(lengths: Sequence[int], *, batch_tokens: int) -> tuple[tuple[int, ...], ...]:
    """Put prompts of similar lengths into batches.

    Args:
        lengths: Tokens of each prompt.
        batch_tokens: Most tokens in a batch, padding included; a longer prompt stands alone.

    Returns:
        Places of the prompts, batch by batch, shortest prompts first.
    """
    _check.at_least(1, batch_tokens=batch_tokens)
    batches: list[list[int]] = []
    for place in sorted(range(len(lengths)), key=lambda place: (lengths[place], place)):
        # sorted, so this prompt is the longest of its batch
        if not batches or (len(batches[-1]) + 1) * lengths[place] > batch_tokens:
            batches.append([])
        batches[-1].append(place)
    return tuple(map(tuple, batches))


def check_disjoint(calibration: Sequence[str], evaluation: Sequence[str]) -> None:
    """Refuse prompts that are used to calibrate and to evaluate.

    Args:
        calibration: Digests of the prompts that set a scale or fitted a mechanism.
        evaluation: Digests of the prompts that a result is stated on.

    Raises:
        InvalidArgumentError: If they share a prompt, with the number shared.
    """
    shared = set(calibration) & set(evaluation)
    if shared:
        raise InvalidArgumentError(
            f"calibration and evaluation prompts must be disjoint, got {len(shared)} in both "
            f"(sha256 {min(shared)[:12]}); hold out prompts that no calibration has read."
        )

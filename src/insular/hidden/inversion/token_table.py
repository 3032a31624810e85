"""The state that each token has after a neutral prefix: a first-order model of any state."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.hidden.inversion.prefix import Prefixes, PrefixRunner
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.prompts import batch_places
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord

Progress = Callable[[str], None]
"""Receives a line now and then."""

NEUTRAL_TOKENS = 16
CALIBRATION_TOKENS = 8192
_SHRINKAGE = 0.02  # towards the diagonal: thousands of rows estimate 576 dimensions well
_VERSION = 2
_BATCH_TOKENS = 2048


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TokenTable:
    r"""A first-order model of a layer: :math:`h_t \approx T[v_t] + \mu + e`, e of covariance C.

    The first position attends to itself alone, so its states are known exactly. What e owes to the
    token before is :math:`e \approx A' (T[v_{t-1}] - \bar T) + e'`, e' of covariance C'.
    """

    layer: int
    """The output of that block."""
    first: Float[Tensor, "vocab hidden"]
    """State of each token at the first position."""
    table: Float[Tensor, "vocab hidden"]
    """State of each token after the neutral prefix."""
    shift: Float[Tensor, " hidden"]
    """Mean residual mu over the calibration tokens, float64."""
    covariance: Float[Tensor, "hidden hidden"]
    """Covariance C of the residuals, float64."""
    influence: Float[Tensor, "hidden hidden"]
    """A, by ridge regression over the calibration tokens, float64."""
    centre: Float[Tensor, " hidden"]
    """Mean state of the tokens before, float64."""
    uninfluenced: Float[Tensor, "hidden hidden"]
    """Covariance C' of what the token before leaves unexplained, out of fold, float64."""
    rounding: float
    """Largest relative distance between states of one token run alone and in a batch."""
    key: str
    """SHA-256 over all that the table depends on."""

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary."""
        return len(self.table)


def table_key(
    decoder: SplitDecoder, *, layer: int, model_digest: str, calibration: Sequence[TokenisedRecord]
) -> str:
    """SHA-256 over model, layer, arithmetic and calibration text.

    Args:
        decoder: The decoder.
        layer: The layer.
        model_digest: Digest of the model's files.
        calibration: The text.

    Returns:
        The digest in hex.
    """
    parts = (_VERSION, model_digest, layer, decoder.dtype, decoder.device, NEUTRAL_TOKENS)
    tokens = [one.tokens for one in calibration]
    return hashlib.sha256(f"{parts} {tokens}".encode()).hexdigest()


@torch.no_grad()
def build_token_tables(
    decoder: SplitDecoder,
    calibration: Sequence[TokenisedRecord],
    *,
    layers: Sequence[int],
    model_digest: str,
    progress: Progress | None = None,
) -> dict[int, TokenTable]:
    """Run every token of the vocabulary twice: at the first position and after a neutral prefix.

    Args:
        decoder: The decoder.
        calibration: Public text; its first 16 tokens are the prefix, up to 8,192 tokens of it give
            the residuals.
        layers: All are read in one pass.
        model_digest: Digest of the model's files.
        progress: Called now and then.

    Returns:
        Layer to table.

    Raises:
        InvalidArgumentError: If the calibration text is too short.
    """
    decoder.check_layers(*layers)
    chosen = _enough(calibration)
    order = tuple(sorted(set(layers)))
    runner = PrefixRunner(decoder, layer=order[-1])
    vocabulary = int(decoder.model.get_input_embeddings().weight.shape[0])  # pyright: ignore
    neutral = torch.tensor([chosen[0].tokens[:NEUTRAL_TOKENS]])
    first = _every_token(runner, runner.empty(), order, vocabulary, progress, "first position")
    table = _every_token(runner, runner.start(neutral), order, vocabulary, progress, "later ones")
    states = _calibration_states(decoder, chosen, order)
    found: dict[int, TokenTable] = {}
    for layer in order:
        tokens = torch.tensor([t for one in chosen for t in one.tokens[1:]])
        residuals = states[layer].double() - table[layer][tokens].double()
        before = torch.tensor([t for one in chosen for t in one.tokens[:-1]])
        explained = _influence(table[layer][before].double(), residuals)
        key = table_key(decoder, layer=layer, model_digest=model_digest, calibration=calibration)
        found[layer] = TokenTable(
            layer=layer,
            first=first[layer],
            table=table[layer],
            shift=residuals.mean(0),
            covariance=_shrunk(residuals),
            influence=explained[0],
            centre=table[layer][before].double().mean(0),
            uninfluenced=explained[1],
            rounding=_rounding(decoder, chosen, layer),
            key=key,
        )
    return found


def _influence(before: Tensor, residuals: Tensor) -> tuple[Tensor, Tensor]:
    """What a token does to the state after it: coefficients, and covariance of what is left."""
    rows, targets = before - before.mean(0), residuals - residuals.mean(0)

    def fitted(chosen: Tensor) -> Tensor:
        part = rows[chosen]
        gram = part.T @ part
        ridge = _SHRINKAGE * gram.trace() / len(gram)
        return torch.linalg.solve(
            gram + ridge * torch.eye(len(gram)).double(), part.T @ targets[chosen]
        )

    # in-sample residuals would look smaller than those of a new prompt
    half = torch.arange(len(rows)) < len(rows) // 2
    left = torch.cat([targets[fold] - rows[fold] @ fitted(~fold) for fold in (half, ~half)])
    return fitted(torch.ones(len(rows), dtype=torch.bool)), _shrunk(left)


def _shrunk(residuals: Tensor) -> Tensor:
    """Covariance of rows, a little towards its diagonal."""
    covariance = torch.cov(residuals.T)
    diagonal = torch.diag(covariance.diagonal() + 1e-12 * covariance.trace() / len(covariance))
    return (1 - _SHRINKAGE) * covariance + _SHRINKAGE * diagonal


def _enough(calibration: Sequence[TokenisedRecord]) -> list[TokenisedRecord]:
    """Records up to the number of tokens that is used; the first gives the prefix."""
    usable = [one for one in calibration if len(one.tokens) >= NEUTRAL_TOKENS]
    chosen: list[TokenisedRecord] = []
    total = 0
    for one in usable:
        if total >= CALIBRATION_TOKENS:
            break
        chosen.append(one)
        total += len(one.tokens) - 1
    _check.at_least(64, calibration_tokens=total)
    return chosen


def _every_token(
    runner: PrefixRunner,
    prefix: Prefixes,
    layers: tuple[int, ...],
    vocabulary: int,
    progress: Progress | None,
    name: str,
) -> dict[int, Tensor]:
    """States of all tokens after one prefix, by layer."""
    size, parts = 512, []
    for start in range(0, vocabulary, size):
        tokens = torch.arange(start, min(start + size, vocabulary))
        found = runner.continued(prefix, torch.zeros_like(tokens), tokens, layers=layers)
        parts.append(found.states)
        if progress is not None and start // size % 24 == 0:
            progress(f"token table, {name}: {start} of {vocabulary}")
    joined = torch.cat(parts).float()
    if not bool(joined.isfinite().all()):
        raise InvalidArgumentError("the decoder's states must be finite, got some that are not.")
    width = joined.shape[1] // len(layers)
    return {
        layer: joined[:, at * width : (at + 1) * width].clone() for at, layer in enumerate(layers)
    }


def _calibration_states(
    decoder: SplitDecoder, records: Sequence[TokenisedRecord], layers: tuple[int, ...]
) -> dict[int, Tensor]:
    """States at all but the first positions, record by record."""
    found: dict[int, dict[int, Tensor]] = {layer: {} for layer in layers}
    lengths = [len(one.tokens) for one in records]
    for rows in batch_places(lengths, batch_tokens=_BATCH_TOKENS):
        batch = collate(
            [records[row] for row in rows],
            pad_token_id=0,
            padding_side="right",
            device=decoder.device,
        )
        for layer, states in decoder.states(batch, layers=layers).items():
            for at, row in enumerate(rows):
                found[layer][row] = states[at, 1 : lengths[row]].float().cpu()
    return {layer: torch.cat([by[row] for row in sorted(by)]) for layer, by in found.items()}


def _rounding(decoder: SplitDecoder, records: Sequence[TokenisedRecord], layer: int) -> float:
    """How far states of one prompt run whole and token by token are apart, at most."""
    tokens = torch.tensor([records[0].tokens[:NEUTRAL_TOKENS]])
    runner = PrefixRunner(decoder, layer=layer)
    batch = collate([records[0], *records[1:4]], pad_token_id=0, device=decoder.device)
    whole = decoder.states(batch, layers=[layer])[layer][0].double().cpu()
    worst, prefix = 1e-7, runner.empty()
    for position in range(tokens.shape[1]):
        zero = torch.zeros(4, dtype=torch.long)
        found = runner.continued(prefix, zero, tokens[:, position].expand(4))
        apart = found.states[0].double() - whole[position]
        worst = max(worst, float(apart.norm() / whole[position].norm()))
        prefix = runner.chosen(prefix, found, zero[:1])
    return worst

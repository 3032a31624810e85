"""Recover a prompt exactly from the states that were stored of it, token by token."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch

from insular.errors import InvalidArgumentError
from insular.hidden.inversion.beam import Step, Stepper
from insular.hidden.inversion.bridge import Bridge
from insular.hidden.inversion.prefix import PrefixRunner
from insular.hidden.inversion.results import TokenStatus
from insular.hidden.inversion.spec import InversionSpec
from insular.hidden.inversion.token_ranking import TokenRanking
from insular.hidden.inversion.tried import Hypotheses
from insular.hidden.inversion.views import View
from insular.hidden.states.forward import SplitDecoder

_MISSES = 3  # states in a row that fit nothing before the search is narrowed
_LOST_CANDIDATES = 16


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class InvertedPrompt:
    """What an attacker reads out of one trajectory. Holds the text: private."""

    tokens: tuple[int, ...]
    """The best hypothesis."""
    statuses: tuple[TokenStatus, ...]
    """How sure each token is."""
    tried: tuple[int, ...]
    """Continuations that were run at each position, opened choices included."""
    margins_nats: tuple[float, ...]
    """How far the best continuation was above the next one when it was chosen."""
    ranks: tuple[int | None, ...]
    """Place of the true token in the first-order ranking, from 1; None without truth or state."""
    opened: int
    """How often earlier choices were opened again because nothing fitted."""
    seconds: float
    """Time that it took."""

    @property
    def certain(self) -> bool:
        """Whether every token was accepted."""
        return set(self.statuses) == {"accepted"}


def invert_states(
    decoder: SplitDecoder,
    view: View,
    *,
    ranking: TokenRanking,
    spec: InversionSpec | None = None,
    truth: Sequence[int] | None = None,
) -> InvertedPrompt:
    """Recover the tokens of one prompt from its states at one layer.

    At each position the whole vocabulary is ranked by a first-order model of the state, the first
    few tokens are run through the blocks up to the layer after the prompt found so far, and the
    one is taken that explains the state better than the next by a margin. Where nothing fits, more
    tokens are tried, by the ranking corrected for this prefix and by the language model, and then
    earlier choices are opened again.

    Guarantees:
        * A token counts as accepted only if its state fits and no other hypothesis is within the
          margin; one that fits nothing is never carried on silently.
        * A wrong choice at which later positions fit nothing is opened again, as far back as
          ``lookback_tokens``.
        * The truth is used to rank it, and for nothing else.

    Args:
        decoder: The decoder that made the states.
        view: What was released.
        ranking: The first-order model of the same layer, with the view's noise.
        spec: Widths and margins.
        truth: True tokens, where they are known.

    Returns:
        What was recovered.

    Raises:
        InvalidArgumentError: If sizes do not match, or the first position was not kept.

    Source:
        Nikolaou et al. (2026), Language models are injective and hence invertible (SipIt).
    """
    _check_sizes(view, ranking, truth)
    started = time.perf_counter()
    if view.n_tokens == 0:
        return InvertedPrompt(
            tokens=(), statuses=(), tried=(), margins_nats=(), ranks=(), opened=0, seconds=0.0
        )
    runner = PrefixRunner(decoder, layer=ranking.table.layer)
    walk = _Walk(Stepper(runner, ranking, view, spec or InversionSpec()))
    best = walk.run()
    seconds = time.perf_counter() - started
    return InvertedPrompt(
        tokens=tuple(best.prefixes.tokens[0].tolist()),
        statuses=_statuses(best, view, walk.stepper.spec.margin_nats, crowded=walk.crowded),
        tried=tuple(walk.tried),
        margins_nats=tuple(walk.margins),
        ranks=_ranks(walk.stepper, view, truth),
        opened=walk.opened,
        seconds=seconds,
    )


@final
class _Walk:
    """The way through all positions, forth and where needed back."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self._view = stepper.view
        self._lookback = stepper.spec.lookback_tokens
        self.tried = [0] * self._view.n_tokens
        self.margins = [0.0] * self._view.n_tokens
        self.crowded = [False] * self._view.n_tokens
        self.opened = 0

    @torch.no_grad()
    def run(self) -> Hypotheses:
        """Hypotheses for the whole prompt."""
        now = self.stepper.start()
        before: list[Hypotheses] = []
        misses = 0
        for position in range(self._view.n_tokens):
            if misses > _MISSES:
                # several states in a row fit nothing: more search only costs time
                now = now.rows(torch.arange(min(len(now), self.stepper.spec.beam)))
                step, found = self._step(now, position, first=_LOST_CANDIDATES), None
            else:
                step, found = self._explained(now, before, position)
            if bool(self._view.observed[position]):
                misses = 0 if step.fits or found is not None else misses + 1
            self.margins[position] = step.margin_nats
            # what was found by a bridge was judged against few rivals
            self.crowded[position] = step.crowded or (
                found is not None and self.crowded[position - 1]
            )
            if found is not None:
                now = found.without_last()
            before = [*before, now][-self._lookback :] if self._lookback else []
            now = step.hypotheses if found is None else found
        return now

    def _explained(
        self, now: Hypotheses, before: list[Hypotheses], position: int
    ) -> tuple[Step, Hypotheses | None]:
        """A step, and where only other choices before explain the state, what follows of these."""
        step, sure = self._step(now, position), self._sure_of(position - 1)
        if not step.fits and sure:
            step = self._step(now, position, wide=True)
        if step.fits:
            return step, None
        found = self._open_again(before, position)
        after_gap = position > 0 and not bool(self._view.observed[position - 1])
        if found is None and not sure and not after_gap:  # after a gap, its token is what is wrong
            step = self._step(now, position, wide=True)
        return step, found

    def _sure_of(self, position: int) -> bool:
        """Whether a state leaves no doubt of its token, so that a later misfit is not its fault."""
        if position < 0 or self._view.noisy:
            return False
        return bool(self._view.observed[position]) and not self.crowded[position]

    def _step(
        self, now: Hypotheses, at: int, *, first: int = 0, wide: bool = False, opened: bool = False
    ) -> Step:
        """One position, counted."""
        if at > 0 and not bool(self._view.observed[at - 1]) and not wide and not opened:
            first = first or self.stepper.spec.first_candidates  # the choice before is not made yet
        step = self.stepper.step(now, at, first=first, wide=wide, opened=opened)
        self.tried[at] += step.tried
        return step

    def _open_again(self, before: list[Hypotheses], position: int) -> Hypotheses | None:
        """Hypotheses that fit here after all, from earlier choices kept wide open."""
        if before and self.crowded[position - 1]:
            self.opened += 1
            crossing = Bridge(self.stepper).cross(before[-1], position - 1)
            self.tried[position - 1] += crossing.tried
            self.tried[position] += crossing.tried_next
            if crossing.hypotheses is not None:
                return crossing.hypotheses
        for back in range(1, len(before) + 1):
            self.opened += 1
            now = before[-back]
            for at in range(position - back, position + 1):
                now = self._step(now, at, opened=True).hypotheses
            good = [
                row
                for row, seen in enumerate(now.seen)
                # by what was known before: a wrong choice must not excuse a misfit after it
                if self._view.fits(seen[position], seen[: position - back])
            ]
            if good:
                return now.rows(torch.tensor(good))
        return None


def _statuses(
    final_hypotheses: Hypotheses, view: View, margin_nats: float, *, crowded: list[bool]
) -> tuple[TokenStatus, ...]:
    """What the rivals that are left and the fit of the best hypothesis say of each token."""
    path, tokens = final_hypotheses.path, final_hypotheses.prefixes.tokens
    rivals = tokens[path >= path[0] - margin_nats]
    seen = final_hypotheses.seen[0]
    fits = [view.fits(distance, seen[:position]) for position, distance in enumerate(seen)]
    kept = view.observed.nonzero().flatten().tolist()
    found: list[TokenStatus] = []
    unvouched = False
    for position in range(len(seen)):
        # rivals were dropped unjudged, and what follows does not vouch for the one kept
        unvouched |= crowded[position] and not all(fits[at] for at in kept if at > position)
        # a position without a state is judged by the next one that has one
        judge = next((at for at in kept if at >= position), None)
        if judge is None:
            found.append("unobserved")
        elif not fits[judge]:
            found.append("doubtful")
        elif unvouched or bool((rivals[:, position] != tokens[0, position]).any()):
            found.append("ambiguous")
        else:
            found.append("accepted")
    return tuple(found)


def _ranks(stepper: Stepper, view: View, truth: Sequence[int] | None) -> tuple[int | None, ...]:
    """Place of each true token in the first-order ranking."""
    if truth is None:
        return (None,) * view.n_tokens
    return tuple(
        int((scores > scores[token]).sum()) + 1 if len(scores) else None
        for scores, token in zip(stepper.table_scores, truth, strict=True)
    )


def _check_sizes(view: View, ranking: TokenRanking, truth: Sequence[int] | None) -> None:
    """Refuse what does not belong together."""
    expected, got = ranking.table.table.shape[1], view.values.shape[-1]
    if view.values.ndim != 2 or got != expected:
        raise InvalidArgumentError(
            f"states must have {expected} numbers a position, as layer {ranking.table.layer} of "
            f"this model has, got shape {tuple(view.values.shape)}."
        )
    if view.n_tokens and not bool(view.observed[0]):
        raise InvalidArgumentError("states must hold the first position, got none there.")
    if truth is not None and len(truth) != view.n_tokens:
        raise InvalidArgumentError(
            f"truth must have one token a position, got {len(truth)} for {view.n_tokens}."
        )

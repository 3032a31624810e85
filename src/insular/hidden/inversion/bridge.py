"""A position whose state says little or nothing, judged by the state after it."""

from dataclasses import dataclass
from typing import final

from insular.hidden.inversion.beam import Stepper
from insular.hidden.inversion.tried import Hypotheses, joined

_CHUNK = 512
_MOST, _MOST_FIRST = 4096, 16_384  # each is run with several tokens at the next position
_POSITIONS = 65_536  # tokens whose keys and values a chunk may hold
_WIDER = 16  # tokens tried at the next position where the first few did not do


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Crossing:
    """Hypotheses that explain the state after a position."""

    hypotheses: Hypotheses | None
    """They end with the position after; None where nothing fitted."""
    tried: int
    """Continuations that were run at the position."""
    tried_next: int
    """The same at the position after."""


@final
class Bridge:
    """Tries very many tokens at one position, each with the few that the next state allows.

    A beam that must choose at a position without a state keeps the tokens that the language model
    finds likely. Here every token up to a limit is tried in that order, and the state after it says
    which was right.

    Args:
        stepper: Of the trajectory.
    """

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper

    def cross(self, before: Hypotheses, position: int) -> Crossing:
        """Continue by two tokens.

        Args:
            before: Hypotheses for the positions before.
            position: The one that says little; a state must follow it.

        Returns:
            What explains the next state.
        """
        spec = self._stepper.spec
        # of a first token nothing is known before it, and it costs little to run
        most = min(_MOST if position else _MOST_FIRST, spec.max_candidates)
        tried = tried_next = 0
        for first, limit in (
            (spec.first_candidates, most),
            (_WIDER, max(most // _WIDER, 1)),
        ):
            found = self._pass(before, position, first=first, limit=limit)
            tried, tried_next = tried + found.tried, tried_next + found.tried_next
            if found.hypotheses is not None:
                return Crossing(hypotheses=found.hypotheses, tried=tried, tried_next=tried_next)
        return Crossing(hypotheses=None, tried=tried, tried_next=tried_next)

    def _pass(self, before: Hypotheses, position: int, *, first: int, limit: int) -> Crossing:
        """Chunk by chunk in the order of what is likely, until one holds an explanation."""
        stepper, best = self._stepper, None
        foreseen = stepper.foreseen(before, position)
        order = foreseen.likely.flatten().topk(min(limit, foreseen.likely.numel())).indices
        tried = tried_next = 0
        for chunk in order.split(self._size(before.prefixes.n_tokens)):
            middle = stepper.continued(foreseen, position, chunk)
            tried += len(chunk)
            if not len(middle):
                continue
            step = stepper.step(middle, position + 1, first=first)
            tried_next += step.tried
            if step.fits:
                best = step.hypotheses if best is None else joined(best, step.hypotheses)
                if not stepper.view.noisy:
                    break
        if best is not None:
            kept = best.path.topk(min(stepper.spec.beam, len(best))).indices
            best = best.rows(kept)
        return Crossing(hypotheses=best, tried=tried, tried_next=tried_next)

    @staticmethod
    def _size(n_tokens: int) -> int:
        """Hypotheses of a chunk: their keys and values are copies."""
        return max(16, min(_CHUNK, _POSITIONS // (n_tokens + 16)))

"""Hypotheses of an inversion, and the continuations that were tried of them at one position."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular.hidden.inversion.prefix import Continued, Prefixes, PrefixRunner
from insular.hidden.inversion.views import View


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Hypotheses:
    """Prompts that explain the positions so far, the best first."""

    prefixes: Prefixes
    """Their tokens, keys and values."""
    path: Float[Tensor, " hypothesis"]
    """Log-likelihood of each, and prior where it was asked, in nats."""
    seen: tuple[tuple[float, ...], ...]
    """Distance at each position; NaN where there was no state."""

    def __len__(self) -> int:
        """Number of hypotheses."""
        return len(self.path)

    def rows(self, rows: Int[Tensor, " chosen"]) -> "Hypotheses":
        """Some of them, in a given order."""
        prefixes = self.prefixes
        return Hypotheses(
            prefixes=Prefixes(
                tokens=prefixes.tokens[rows],
                cache=tuple((keys[rows], values[rows]) for keys, values in prefixes.cache),
            ),
            path=self.path[rows],
            seen=tuple(self.seen[row] for row in rows.tolist()),
        )

    def without_last(self) -> "Hypotheses":
        """They before their last token, with what is known of them now."""
        prefixes = self.prefixes
        return Hypotheses(
            prefixes=Prefixes(
                tokens=prefixes.tokens[:, :-1],
                cache=tuple(
                    (keys[:, :, :-1], values[:, :, :-1]) for keys, values in prefixes.cache
                ),
            ),
            path=self.path,
            seen=tuple(one[:-1] for one in self.seen),
        )


def joined(one: Hypotheses, other: Hypotheses) -> Hypotheses:
    """Hypotheses of one length, in one set.

    Args:
        one: Some.
        other: Others.

    Returns:
        All of them.
    """
    pairs = zip(one.prefixes.cache, other.prefixes.cache, strict=True)
    return Hypotheses(
        prefixes=Prefixes(
            tokens=torch.cat([one.prefixes.tokens, other.prefixes.tokens]),
            cache=tuple((torch.cat([a, c]), torch.cat([b, d])) for (a, b), (c, d) in pairs),
        ),
        path=torch.cat([one.path, other.path]),
        seen=one.seen + other.seen,
    )


@final
class TriedTokens:
    """Continuations of one position that were tried, with their scores."""

    def __init__(self, before: Hypotheses, *, n_vocabulary: int) -> None:
        self.before = before
        self._open = torch.ones((len(before), n_vocabulary), dtype=torch.bool)
        self._found: Continued | None = None
        self._distances = torch.zeros(0, dtype=torch.float64)
        self.totals = torch.zeros(0, dtype=torch.float64)

    @property
    def tried(self) -> int:
        """How many."""
        return len(self.totals)

    def n_near(self, margin: float, *, since: int = 0) -> int:
        """How many of those tried since then are within the margin of the best of all."""
        return int((self.totals[since:] >= self.totals.max() - margin).sum())

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to try."""
        return self.tried == self._open.numel()

    def untried(self, scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The best pairs of hypothesis and token that were not tried."""
        masked = scores.masked_fill(~self._open, -torch.inf).flatten()
        best = masked.topk(min(size, int(self._open.sum()))).indices
        return self._close(best // scores.shape[1], best % scores.shape[1])

    def untried_each(self, scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
        """The best tokens of each hypothesis."""
        best = scores.topk(min(size, scores.shape[1]), dim=1).indices
        parents = torch.arange(len(scores))[:, None].expand_as(best)
        return self._close(parents.flatten(), best.flatten())

    def of_hypothesis(self, hypothesis: int) -> tuple[Tensor, Tensor] | None:
        """Tokens and states that were tried of one hypothesis."""
        if self._found is None:
            return None
        rows = self._found.parents == hypothesis
        return (self._found.tokens[rows], self._found.states[rows]) if bool(rows.any()) else None

    def note(self, found: Continued, distances: Tensor, scores: Tensor) -> None:
        """Take in continuations that were run."""
        self._found = found if self._found is None else self._found.joined(found)
        self._distances = torch.cat([self._distances, distances.double()])
        self.totals = torch.cat([self.totals, self.before.path[found.parents] + scores.double()])

    def add_prior(self, prior: Tensor | None) -> None:
        """Add the prior's nats to all that were tried."""
        if prior is not None and self._found is not None:
            self.totals = self.totals + prior[self._found.parents, self._found.tokens].double()

    def best_fits(self, view: View) -> bool:
        """Whether the best continuation can be the truth."""
        best = int(self.totals.argmax())
        assert self._found is not None
        earlier = self.before.seen[int(self._found.parents[best])]
        return view.fits(float(self._distances[best]), earlier)

    def made(self, runner: PrefixRunner, rows: Tensor, totals: Tensor) -> Hypotheses:
        """Some continuations as hypotheses."""
        assert self._found is not None
        parents = self._found.parents[rows].tolist()
        distances = self._distances[rows].tolist()
        return Hypotheses(
            prefixes=runner.chosen(self.before.prefixes, self._found, rows),
            path=totals,
            seen=tuple(
                (*self.before.seen[parent], distance)
                for parent, distance in zip(parents, distances, strict=True)
            ),
        )

    def _close(self, parents: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Mark pairs as tried."""
        self._open[parents, tokens] = False
        return parents, tokens

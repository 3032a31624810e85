"""One position of an inversion: propose continuations, run them, keep those that explain it."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from insular.hidden.inversion.prefix import PrefixRunner
from insular.hidden.inversion.spec import InversionSpec
from insular.hidden.inversion.token_ranking import TokenRanking
from insular.hidden.inversion.tried import Hypotheses, TriedTokens
from insular.hidden.inversion.views import View

_GROWTH = 8  # each round tries this many times as many as the one before
_MOST_POSITIONS = 65_536  # tokens whose keys and values guesses without a state may hold
_FIRST_ROUNDS = 256  # tried at a position before earlier choices are opened again


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What one position gave."""

    hypotheses: Hypotheses
    """Those kept."""
    fits: bool
    """Whether the best of them can be the truth."""
    tried: int
    """Continuations that were run."""
    margin_nats: float
    """How far the best one is above the next; infinite for a single one."""
    crowded: bool
    """Whether more than were kept, or were tried, may be within the margin."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Foreseen:
    """What is known of continuations before they are run, in nats ``[hypothesis, vocab]``."""

    before: Hypotheses
    """What they continue."""
    path: Tensor
    """By the positions before, and the prior."""
    likely: Tensor
    """By these, the position's own state and the next one, where there are any."""


@final
class Stepper:
    """Continues hypotheses by one token, for one released trajectory.

    Args:
        runner: Runs the model up to the layer.
        ranking: The first-order model.
        view: What was released.
        spec: Widths and margins.
    """

    def __init__(
        self, runner: PrefixRunner, ranking: TokenRanking, view: View, spec: InversionSpec
    ) -> None:
        self.runner = runner
        self.ranking = ranking
        self.view = view
        self.spec = spec
        self.table_scores = _table_scores(ranking, view)
        self._next_scores: dict[int, Tensor] = {}

    def start(self) -> Hypotheses:
        """The empty prompt."""
        path = torch.zeros(1, dtype=torch.float64)
        return Hypotheses(prefixes=self.runner.empty(), path=path, seen=((),))

    def step(
        self,
        before: Hypotheses,
        position: int,
        *,
        first: int = 0,
        wide: bool = False,
        opened: bool = False,
    ) -> Step:
        """Continue by one token.

        Args:
            before: Hypotheses for the positions before.
            position: Which one comes next.
            first: Try this many tokens of each hypothesis and no more; 0 for rounds that grow.
            wide: Whether to try as many tokens as allowed before giving up.
            opened: Whether to keep all that the beam holds, however unlikely.

        Returns:
            The step.
        """
        if not bool(self.view.observed[position]):
            return self._blind(before, position, opened=opened)
        search = TriedTokens(before, n_vocabulary=self.table_scores[position].shape[0])
        limit = self.spec.max_candidates if wide else min(_FIRST_ROUNDS, self.spec.max_candidates)
        ask = self.spec.prior == "always" or (self.spec.prior == "auto" and self.view.noisy)
        prior = self._prior(search) if ask else None
        size, more = self._first_size(len(before)), False
        while True:
            earlier = search.tried
            if first:
                scores = self._proposals(search, position)
                self._run(search, position, search.untried_each(scores, first))
                break
            self._round(search, position, size=size, prior=prior)
            more = self._is_open(search, earlier=earlier, opened=opened)
            if (
                (search.best_fits(self.view) and not more)
                or search.tried >= limit
                or search.exhausted
            ):
                break
            if prior is None and self.spec.prior != "never":
                prior = self._prior(search)
            size = min(_GROWTH * size, max(limit - search.tried, 1))
        if prior is not None or (
            self.spec.prior != "never" and search.n_near(self.spec.margin_nats) > 1
        ):
            search.add_prior(prior if prior is not None else self._prior(search))
        return self._kept(search, opened=opened, more=more and not search.exhausted)

    def foreseen(self, before: Hypotheses, position: int) -> Foreseen:
        """What is known of each continuation before it is run.

        Args:
            before: Hypotheses for the positions before.
            position: Which one comes next.

        Returns:
            Their nats, by prior alone and by all that is known.
        """
        ready, prior = self._prior_of(before)
        path = before.path[:, None].float().expand(-1, self.ranking.table.n_tokens)
        path = path if prior is None else path + prior
        likely = path + self._by_the_next_state(position)
        if bool(self.view.observed[position]):
            likely = likely + self.table_scores[position]
        return Foreseen(before=ready, path=path, likely=likely)

    def continued(self, foreseen: Foreseen, position: int, flat: Tensor) -> Hypotheses:
        """Run foreseen continuations; those stay that the position's own state does not rule out.

        Args:
            foreseen: What they are chosen from.
            position: Of their last token.
            flat: Which, as places in ``[hypothesis, vocab]``.

        Returns:
            They, in the order given.
        """
        before, n_tokens = foreseen.before, foreseen.path.shape[1]
        parents, tokens = flat // n_tokens, flat % n_tokens
        path = foreseen.path.flatten()[flat].double()
        found = self.runner.continued(before.prefixes, parents, tokens)
        if bool(self.view.observed[position]):
            apart = self.view.distances(position, found.states)
            path, distances = path + self.view.scores(apart).double(), apart.tolist()
            good = [
                row
                for row, (parent, distance) in enumerate(
                    zip(parents.tolist(), distances, strict=True)
                )
                if self.view.fits(distance, before.seen[parent])
            ]
        else:
            distances, good = [float("nan")] * len(flat), list(range(len(flat)))
        rows = torch.tensor(good, dtype=torch.long)
        return Hypotheses(
            prefixes=self.runner.chosen(before.prefixes, found, rows),
            path=path[rows],
            seen=tuple((*before.seen[int(parents[row])], distances[row]) for row in good),
        )

    def _by_the_next_state(self, position: int) -> Tensor:
        """What each token would do to the state after it, where there is one."""
        if position + 1 >= self.view.n_tokens or not bool(self.view.observed[position + 1]):
            return torch.zeros(1)
        if position not in self._next_scores:  # rounds and reopened choices ask again
            state, scores = self.view.values[position + 1], self.table_scores[position + 1]
            here = scores.topk(self.spec.first_candidates).indices
            self._next_scores[position] = self.ranking.token_before(state, here)
        return self._next_scores[position]

    def _first_size(self, n_hypotheses: int) -> int:
        """Continuations of the first round."""
        if self.view.noisy:
            return max(self.spec.noisy_candidates, self.spec.first_candidates * n_hypotheses)
        return self.spec.first_candidates * n_hypotheses

    def _prior(self, search: TriedTokens) -> Tensor | None:
        """Log-probabilities of the next token of each hypothesis, or None at the first position."""
        search.before, found = self._prior_of(search.before)
        return found

    def _prior_of(self, before: Hypotheses) -> tuple[Hypotheses, Tensor | None]:
        """The same, and the hypotheses with what was computed for them."""
        if self.spec.prior == "never":
            return before, None
        prefixes, found = self.runner.prior(before.prefixes)
        return Hypotheses(prefixes=prefixes, path=before.path, seen=before.seen), found

    def _round(
        self, search: TriedTokens, position: int, *, size: int, prior: Tensor | None
    ) -> None:
        """Propose untried continuations, run them and note their scores."""
        scores = self._proposals(search, position)
        if prior is not None:
            scores = scores + prior
        if self.view.noisy or search.tried:
            both = search.tried > 0 and not self.view.noisy
            picked = search.untried(scores, size - size // 2 if both else size)
            self._run(search, position, picked)
            if both:
                # a state that the first-order model fails at: go by the prior and the next state
                others = self._by_the_next_state(position)
                others = others if prior is None else others + prior
                others = others.expand(len(search.before), scores.shape[1])
                self._run(search, position, search.untried(others, size // 2))
        else:
            self._run(search, position, search.untried_each(scores, self.spec.first_candidates))

    def _proposals(self, search: TriedTokens, position: int) -> Tensor:
        """Path and first-order log-likelihood, corrected by what was tried of each hypothesis."""
        table = self.table_scores[position]
        rows = []
        for hypothesis in range(len(search.before)):
            own = search.of_hypothesis(hypothesis)
            if own is None or position == 0 or self.view.noisy:
                rows.append(table)
            else:
                seen = self.view.values[position]
                rows.append(self.ranking.corrected(seen, own[0], own[1]))
        return torch.stack(rows) + search.before.path[:, None].to(table)

    def _run(self, search: TriedTokens, position: int, picked: tuple[Tensor, Tensor]) -> None:
        """Run continuations and note their scores."""
        parents, tokens = picked
        if not len(tokens):
            return
        found = self.runner.continued(search.before.prefixes, parents, tokens)
        distances = self.view.distances(position, found.states)
        search.note(found, distances, self.view.scores(distances))

    def _is_open(self, search: TriedTokens, *, earlier: int, opened: bool) -> bool:
        """Whether tokens that were not tried may explain the state as well as the best one."""
        if opened and search.tried < _FIRST_ROUNDS:
            return True
        margin = self.spec.margin_nats
        # coarse cells hold many tokens: go on for as long as a round adds as good ones
        return not self.view.noisy and search.n_near(margin, since=earlier) > 1

    def _kept(self, search: TriedTokens, *, opened: bool, more: bool) -> Step:
        """The continuations that go on."""
        near = search.n_near(self.spec.margin_nats)
        wide = opened or (near > self.spec.beam and not self.view.noisy)
        width = _GROWTH * self.spec.beam if wide else self.spec.beam
        totals, rows = search.totals.topk(min(width, search.tried))
        margin = float(totals[0] - totals[1]) if len(totals) > 1 else float("inf")
        if not opened:
            kept = totals >= totals[0] - self.spec.margin_nats
            totals, rows = totals[kept], rows[kept]
        return Step(
            hypotheses=search.made(self.runner, rows, totals),
            fits=search.best_fits(self.view),
            tried=search.tried,
            margin_nats=margin,
            crowded=more or near > len(rows),
        )

    def _blind(self, before: Hypotheses, position: int, *, opened: bool) -> Step:
        """Continue where there is no state: by the prior, and by what the next state says."""
        foreseen = self.foreseen(before, position)
        width = (_GROWTH if opened else 1) * self.spec.gap_beam
        width = max(1, min(width, foreseen.path.numel(), _MOST_POSITIONS // (position + 1)))
        flat = foreseen.likely.flatten().topk(width).indices
        # the next state is counted when it is reached
        totals, order = foreseen.path.flatten()[flat].double().sort(descending=True)
        margin = float(totals[0] - totals[1]) if len(totals) > 1 else float("inf")
        return Step(
            hypotheses=self.continued(foreseen, position, flat[order]),
            fits=True,
            tried=0,
            margin_nats=margin,
            crowded=True,
        )


def _table_scores(ranking: TokenRanking, view: View) -> list[Tensor]:
    """First-order log-likelihood of every token at each position; empty where nothing was kept."""
    kept = view.observed.nonzero().flatten().tolist()
    later = [position for position in kept if position > 0]
    rows = [torch.zeros(0)] * view.n_tokens
    if kept and kept[0] == 0:
        rows[0] = ranking.first_position(view.values[0])
    if later:
        for position, scores in zip(
            later, ranking.later_positions(view.values[later]), strict=True
        ):
            rows[position] = scores
    return rows

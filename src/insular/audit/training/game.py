"""A game against whole private training runs, whose player sees every noisy sum.

A canary is a privacy unit whose contribution lies along a direction of its own. Fair coins say
which canaries are in the data; the run's own sampler, clipping and noise do all of its steps; the
player scores each canary, and draws of both kinds are held against the composed promise.

The run is a callable, so that any trainer can be put to the test.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np
from scipy.special import logsumexp

from insular import _check
from insular.errors import InvalidArgumentError

Array = np.ndarray


class TrainingRun(Protocol):
    """A training run that can be repeated with other canaries in its data."""

    def __call__(self, present: Array, *, seed: int) -> Array:
        """Train once, with fresh draws and fresh noise.

        Args:
            present: For each canary, whether it is in the data.
            seed: Of all randomness of this repetition.

        Returns:
            The noisy sum of each step along each canary's direction, steps by canaries, in
            standard deviations of the noise that is promised.
        """
        ...


@final
@dataclass(frozen=True, kw_only=True)
class Mixture:
    """What one unit adds to the sum of a step along its direction, at random."""

    shifts: tuple[float, ...] = (0.0,)
    """Possible values, in standard deviations of the promised noise."""
    weights: tuple[float, ...] = (1.0,)
    """Probability of each."""

    def __post_init__(self) -> None:
        """Refuse what is no distribution."""
        if len(self.shifts) != len(self.weights) or not self.shifts:
            raise InvalidArgumentError(
                f"shifts and weights must be as many, and at least one, got {len(self.shifts)} and "
                f"{len(self.weights)}."
            )
        for weight in self.weights:
            _check.probability(weight=weight)
        if abs(sum(self.weights) - 1) > 1e-9:
            raise InvalidArgumentError(f"weights must add up to 1, got {sum(self.weights)!r}.")


@final
@dataclass(frozen=True, kw_only=True)
class ScoreRule:
    r"""The log-likelihood ratio of a canary's presence under the mechanism that is promised.

    For a contribution of c standard deviations that enters a step with probability q it is
    :math:`\sum_t \log(1 - q + q \exp(x_t c - c^2/2))`, the best score there is if the run is what
    it says. On any other run it is a score like any other: the bounds do not rest on it.

    Guarantees:
        * A canary's score depends on its own column alone.
    """

    present: Mixture
    """Of a unit that is in the data, in one step."""
    absent: Mixture = Mixture()
    """Of one that is not, or of what it is replaced by."""
    slots: int | None = None
    """Steps of a pass in exactly one of which the unit is, where the sampler shuffles; the weights
    are then not used. None where each step has its own coin."""

    def __post_init__(self) -> None:
        """Refuse a pass without steps."""
        if self.slots is not None:
            _check.at_least(1, slots=self.slots)

    def scores(self, observed: Array) -> Array:
        """The score of each canary.

        Args:
            observed: What a ``TrainingRun`` returned.

        Returns:
            One number a canary; higher speaks for its presence.
        """
        return self._log_likelihood(observed, self.present) - self._log_likelihood(
            observed, self.absent
        )

    def _log_likelihood(self, observed: Array, mixture: Mixture) -> Array:
        """Over that of noise alone."""
        if self.slots is not None:
            starts = range(0, len(observed), self.slots)
            passes = [observed[at : at + self.slots] for at in starts]
            return np.sum([self._log_pass(part, mixture.shifts[0]) for part in passes], axis=0)
        terms = [
            np.log(weight) + observed * shift - shift * shift / 2
            for shift, weight in zip(mixture.shifts, mixture.weights, strict=True)
            if weight > 0
        ]
        return logsumexp(terms, axis=0).sum(axis=0)

    def _log_pass(self, observed: Array, shift: float) -> Array:
        """Of one pass, or of its beginning: the unit's step is one of ``slots`` at random."""
        assert self.slots is not None
        left = self.slots - len(observed)
        terms = observed * shift - shift * shift / 2
        if left:
            terms = np.vstack([terms, np.full(observed.shape[1], np.log(left))])
        return logsumexp(terms, axis=0) - np.log(self.slots)

    def draw(self, steps: int, n: int, *, with_record: bool, ratio: float, seed: int) -> Array:
        """Scores of the mechanism itself, in real numbers, with a unit that weighs ``ratio``.

        It says what an attack can be expected to see; nothing of any code.

        Args:
            steps: Of the run.
            n: Scores.
            with_record: Whether the unit is in the data.
            ratio: The unit's contribution over the one that is promised.
            seed: Of numpy's generator.

        Returns:
            The scores.
        """
        _check.at_least(1, steps=steps, n=n)
        rng = np.random.default_rng(seed)
        mixture = self.present if with_record else self.absent
        found = []
        for first in range(0, n, _BLOCK):
            size = (steps, min(_BLOCK, n - first))
            if self.slots is None:
                shifts = rng.choice(mixture.shifts, size=size, p=mixture.weights)
            else:
                n_passes = -(-steps // self.slots)
                mine = rng.integers(self.slots, size=(n_passes, size[1]))
                at = np.arange(steps)[:, None]
                here = mine[at[:, 0] // self.slots] == at % self.slots
                shifts = here * mixture.shifts[0]
            found.append(self.scores(rng.standard_normal(size) + ratio * shifts))
        return np.concatenate(found)


_BLOCK = 2048
"""Scores of the mechanism that are drawn at a time."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
    """What the player gave each canary: a row for each way to score, a column for each canary."""

    without: Array
    """Of those that were not in the data."""
    with_record: Array
    """Of those that were."""


def spread(observed: Array) -> Array:
    """How much a canary's sums vary over the steps.

    It knows no mechanism. Noise that is used again in another step cancels in it, so that the steps
    with the canary stand out, where the likelihood takes each step's noise for a new one.

    Args:
        observed: What a ``TrainingRun`` returned.

    Returns:
        Squared deviations from the mean over the steps, summed; 0 for a single step.
    """
    return ((observed - observed.mean(axis=0)) ** 2).sum(axis=0)


def play(
    run: TrainingRun,
    scorers: Sequence[Callable[[Array], Array]],
    *,
    n_canaries: int,
    games: range,
    seed: int,
    progress: Callable[[int], None] = lambda done: None,
) -> Scores:
    """Train again and again, each time with other canaries.

    Guarantees:
        * Coins are fair and independent, and no part of the run sees them but through its data.
        * A game's coins and seed depend on ``seed`` and its number alone.

    Args:
        run: The training run.
        scorers: Each gives every canary a score, from its column alone.
        n_canaries: Canaries of each game.
        games: Numbers of the repetitions.
        seed: Of the whole attack.
        progress: Called with the number of games played.

    Returns:
        All scores.

    Raises:
        InvalidArgumentError: If a run returns another number of columns, or what is not finite.
    """
    _check.at_least(1, n_canaries=n_canaries, games=len(games))
    _check.at_least(0, seed=seed)
    without, with_record = [], []
    for done, game in enumerate(games, start=1):
        present = np.random.default_rng(game_seed(seed, game, "coins")).random(n_canaries) < 0.5
        observed = run(present, seed=game_seed(seed, game, "run"))
        if observed.ndim != 2 or observed.shape[1] != n_canaries or not np.isfinite(observed).all():
            raise InvalidArgumentError(
                f"a training run must return finite sums for {n_canaries} canaries, got shape "
                f"{observed.shape}."
            )
        scores = np.array([score(observed) for score in scorers])
        without.append(scores[:, ~present])
        with_record.append(scores[:, present])
        progress(done)
    return Scores(without=np.concatenate(without, 1), with_record=np.concatenate(with_record, 1))


def game_seed(seed: int, game: int, purpose: str) -> int:
    """The seed of one part of one game, which no other shares.

    Args:
        seed: Of the attack.
        game: Number of the game.
        purpose: Which part.

    Returns:
        From 0 to 2^63 - 1.
    """
    text = f"training game {seed} {game} {purpose}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1

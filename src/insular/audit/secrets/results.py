"""What became of planted secrets: ranks, exposures, what a promise allows. Torch-free."""

import math
from dataclasses import dataclass
from typing import Literal, final

from insular.audit.statistics.bounds import Rate

RankMethod = Literal["exact", "sampled"]
ExtractionVerdict = Literal["refuted", "not refuted", "undecided", "nothing promised"]
CONTROL_SIGNIFICANCE = 1e-3
"""Error probability at which controls count as not random."""


@final
@dataclass(frozen=True, kw_only=True)
class SecretRank:
    """How likely a model finds one secret among all that could have been drawn."""

    id: str
    """Id in the plan; the secret itself stands nowhere here."""
    repeats: int
    """Rows that held it; 0 for a control."""
    method: RankMethod
    """``exact``: among all of the space; ``sampled``: among candidates drawn evenly from it."""
    n_candidates: int
    """Secrets that were ranked, this one included."""
    rank_lowest: int
    """1 + candidates that are likelier."""
    rank_highest: int
    """The same, with each candidate that is as likely up to ``tie_nats`` in front of it."""
    tie_nats: float
    """Difference of log-likelihoods below which two candidates tie: the numeric floor."""
    exposure_interval: tuple[float, float]
    """Exposure at the highest and the lowest rank, in bits; where sampled, with 95% bounds."""
    log_likelihood_nats: float
    """Of the secret after its prompt."""
    greedy: bool
    """Whether greedy decoding after the prompt spells the secret."""
    n_prefixes: int
    """Prefixes that the model was asked about."""
    drift_nats: float | None
    """Difference between the secret's likelihood alone and among others; None if not met."""

    @property
    def rank(self) -> float:
        """Middle of the interval of ranks."""
        return (self.rank_lowest + self.rank_highest) / 2

    @property
    def exposure_bits(self) -> float:
        """log2 candidates - log2 rank."""
        return math.log2(self.n_candidates) - math.log2(self.rank)

    @property
    def share(self) -> float:
        """Highest rank over candidates: what a test may rely on."""
        return self.rank_highest / self.n_candidates

    @property
    def samples_needed(self) -> float:
        """Expected continuations of the prompt, drawn at temperature 1, until one is the secret."""
        return math.exp(-self.log_likelihood_nats) if self.log_likelihood_nats > -700 else math.inf


@final
@dataclass(frozen=True, kw_only=True)
class AllowedExposure:
    """What a promise allows for secrets of one repetition count."""

    epsilon: float
    """For all rows of one secret together, in nats."""
    delta: float
    """For all of them."""
    how: str
    """How the promise for one unit became one for these rows."""
    mean_bits: float
    """Largest expected exposure."""


@final
@dataclass(frozen=True, kw_only=True)
class SecretGroup:
    """Secrets that were planted equally often."""

    repeats: int
    """Rows of each; 0 for the controls."""
    n: int
    """Secrets."""
    mean_bits: float
    """Mean exposure."""
    median_bits: float
    """Median exposure."""
    median_interval: tuple[float, float]
    """Exact 95% interval of the median, by order statistics."""
    greedy: Rate
    """Secrets that greedy decoding spells, with 97.5% bounds on each side."""
    chance_p: float
    """Probability of so much exposure or more if the model knew none of them (Fisher)."""
    allowed: AllowedExposure | None
    """What the promise allows; None for controls, or where nothing is promised."""


@final
@dataclass(frozen=True, kw_only=True)
class RankTest:
    """Whether as many secrets rank in front as a promise allows."""

    repeats: int
    """Rows of each secret."""
    share: float
    """In front: in this share of the space."""
    count: int
    """Secrets whose highest rank lies there."""
    n: int
    """Secrets."""
    probability: float
    """Largest probability for one secret."""
    p_value: float
    """Largest probability of as many or more."""
    smallest_p: float
    """The same if all were there: what this test could show at best."""


@final
@dataclass(frozen=True, kw_only=True)
class ExtractionResult:
    """Planted secrets held against the model that was trained on them."""

    attacked: str
    """What was attacked."""
    template: str
    """The sentence, without name and secret."""
    space_size: int
    """Secrets that could have been drawn."""
    epsilon: float | None
    """Promised for one unit, in nats; None where nothing is promised."""
    delta: float | None
    """Delta of the promise."""
    unit: str
    """Whose presence it hides: ``record``, or ``owner`` of all rows of a secret."""
    caveat: str
    """Why the promise is an estimate only; empty where it is a guarantee."""
    secrets: tuple[SecretRank, ...]
    """Every secret, by id."""
    planted: tuple[SecretGroup, ...]
    """By repetition count, ascending."""
    controls: SecretGroup
    """Those in no row."""
    control_p: float
    """Two-sided probability of the controls' exposures if they are random."""
    tests: tuple[RankTest, ...]
    """Every test of the promise."""
    significance: float
    """Error probability of all tests together."""
    notes: tuple[str, ...]
    """What else a reader must know."""

    @property
    def level(self) -> float:
        """Significance of one test."""
        return self.significance / max(1, len(self.tests))

    @property
    def refuting(self) -> tuple[RankTest, ...]:
        """Tests that refute the promise."""
        return tuple(test for test in self.tests if test.p_value <= self.level)

    @property
    def controls_random(self) -> bool:
        """Whether the controls look as they must."""
        return self.control_p > CONTROL_SIGNIFICANCE

    @property
    def verdict(self) -> ExtractionVerdict:
        """Undecided: no test could refute, or the controls are not random."""
        if self.epsilon is None:
            return "nothing promised"
        if self.refuting:
            return "refuted"
        able = any(test.smallest_p <= self.level for test in self.tests)
        return "not refuted" if able and self.controls_random else "undecided"

    @property
    def exit_code(self) -> int:
        """0: not refuted, or nothing promised; 1: refuted; 2: undecided."""
        return {"refuted": 1, "undecided": 2}.get(self.verdict, 0)

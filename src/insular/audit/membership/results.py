"""What a membership attack found, with what makes each number valid. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.accounting import Relation, TradeoffCurve, Unit
from insular.audit.membership.shadow_results import ShadowUse
from insular.audit.statistics.bounds import EpsilonBound, Rate, TradeoffBound, promised_rate
from insular.evidence import ArrayRef

ScoreName = Literal[
    "loss", "zlib", "reference", "lowest", "likelihood ratio", "one-sided likelihood ratio"
]
"""How a record is scored; of every score, more speaks for membership."""
MembershipVerdict = Literal["refuted", "not refuted", "undecided", "no promise"]


@final
@dataclass(frozen=True, kw_only=True)
class Area:
    """Probability that a member scores above a non-member, ties counted half."""

    area: float
    """From 0 to 1; 0.5 is chance."""
    lower: float
    """Lower end of the interval."""
    upper: float
    """Upper end."""
    significance: float
    """Error probability of the interval."""
    n_members: int
    """Scores of members."""
    n_non_members: int
    """Scores of non-members."""
    method: str
    """How the interval was computed."""


@final
@dataclass(frozen=True, kw_only=True)
class RocPoint:
    """An attacker that takes all above one threshold for members."""

    fpr: float
    """Share of non-members above it."""
    tpr: float
    """Share of members above it."""


@final
@dataclass(frozen=True, kw_only=True)
class OperatingPoint:
    """The threshold that at most a wanted share of the non-members exceed."""

    wanted_fpr: float
    """The wanted share."""
    fpr: Rate
    """Non-members above the threshold; its bounds hold for the threshold that they chose."""
    tpr: Rate
    """Members above it: bounds of an interval of the attack's significance."""
    proven_fpr: float
    """The test's upper bound on the false positive rate."""
    proven_tpr: float
    """The test's lower bound on the true positive rate."""
    allowed: float | None
    """The most true positives that the promise allows at ``proven_fpr``; None without one."""

    @property
    def resolved(self) -> bool:
        """Whether so many non-members can show so small a rate: one of them may lie above."""
        return self.wanted_fpr * self.fpr.n >= 1 - 1e-9

    @property
    def refutes(self) -> bool:
        """Whether more members are found than the promise allows."""
        return self.allowed is not None and self.proven_tpr > self.allowed


@final
@dataclass(frozen=True, kw_only=True)
class Advantage:
    """True minus false positive rate at a threshold that one half chose and the other judged."""

    value: float
    """As it was judged; 0 is chance."""
    lower: float
    """Lower bound."""
    upper: float
    """Upper bound."""
    significance: float
    """Error probability of both bounds together."""
    n_judged: int
    """Smaller number of scores, of members or of non-members, that were judged."""


@final
@dataclass(frozen=True, kw_only=True)
class ScoreFinding:
    """One score of all records, held against the promise."""

    score: ScoreName
    """Which score."""
    points: tuple[OperatingPoint, ...]
    """At the wanted false positive rates."""
    tradeoff: TradeoffBound
    """The point of a held-out attacker, in whichever direction the score tells more."""
    allowed: float | None
    """The most true positives that the promise allows there; None without a promise."""
    epsilon: EpsilonBound
    """Lower bound on epsilon at the promise's delta."""
    advantage: Advantage
    """Held out."""
    auc: Area
    """Of the score as it is meant; below 0.5, members look less like members."""
    roc: tuple[RocPoint, ...]
    """The curve, thinned."""

    @property
    def refutes(self) -> bool:
        """Whether a bound lies above what the promise allows."""
        curve = self.allowed is not None and self.tradeoff.tpr.lower > self.allowed
        return curve or any(point.refutes for point in self.points)


@final
@dataclass(frozen=True, kw_only=True)
class NearDuplicate:
    """A non-member that stands among the records that were learnt from, or nearly does."""

    non_member: str
    """Its id."""
    seen: str
    """Id of the most similar record that was learnt from."""
    similarity: float
    """Share of word shingles that they have in common; 1 for the same text up to case and space."""


@final
@dataclass(frozen=True, kw_only=True)
class Overlap:
    """Non-members that are no non-members."""

    threshold: float
    """Similarity from which a record counts as a copy."""
    shingle_words: int
    """Words of a shingle."""
    n_compared: int
    """Records that were learnt from, as far as they were given."""
    found: tuple[NearDuplicate, ...]
    """Each such non-member with its most similar record; left out of the attack."""


@final
@dataclass(frozen=True, kw_only=True)
class Shift:
    """What tells members from non-members without the model: a classifier of their texts."""

    auc: Area
    """Of texts that the classifier was not fitted to."""
    folds: int
    """Parts in turn left out."""
    features: str
    """What it saw of a text."""

    @property
    def found(self) -> bool:
        """Whether the two files differ by more than chance."""
        return self.auc.lower > 0.5


@final
@dataclass(frozen=True, kw_only=True)
class MembershipClaim:
    """The promise that is tested."""

    source: str
    """Who promises."""
    epsilon: float
    """In nats."""
    delta: float
    """From 0 to 1."""
    unit: Unit
    """Whose presence is hidden."""
    relation: Relation | None
    """Neighbouring data sets; None where only (epsilon, delta) was given."""
    curve: TradeoffCurve
    """Of the whole training run, or of the one point (epsilon, delta)."""
    whole: bool
    """Whether the curve is that of the run rather than of the one point."""
    caveat: str
    """Why it is only an estimate; empty for a guarantee."""


@final
@dataclass(frozen=True, kw_only=True)
class ScoreBlock:
    """Some records as the model scored them."""

    block: int
    """Position of the block, shortest records first."""
    ids: tuple[str, ...]
    """The records, in the order of the arrays."""
    seconds: float
    """Time that it took."""
    scores: ArrayRef | None = None
    """``loss``, ``lowest``, ``n_targets`` and, if there is a reference, ``reference``."""


@final
@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many records of one file there are, and what became of them."""

    read: int
    """Records of the file."""
    too_short: int
    """Left out: fewer than two tokens."""
    truncated: int
    """Scored by their beginning."""
    repeated: int
    """Texts that an earlier record of the file has too, up to case and space."""
    scored: int
    """Scored records."""
    units: int
    """Scores: one for each record, or for each owner the mean of theirs."""


@final
@dataclass(frozen=True, kw_only=True)
class MembershipResult:
    """A membership attack on one model."""

    name: str
    """What was attacked."""
    claim: MembershipClaim | None
    """The promise; None if nothing is promised."""
    members: Counts
    """Records that were learnt from."""
    non_members: Counts
    """Records that were not."""
    by_owner: bool
    """Whether scores are means over each owner's records."""
    found_in_training: int | None
    """Members that stand in the run's training text; None where that text is not at hand."""
    reference: str
    """What the reference score compares with; empty for nothing."""
    lowest_percent: int
    """Share of the least likely tokens in the ``lowest`` score."""
    overlap: Overlap
    """Copies among the non-members."""
    shift: Shift
    """What needs no model."""
    significance: float
    """Error probability of everything that is refuted, together; also of each interval."""
    n_tests: int
    """Tests that share it."""
    able: bool
    """Whether a perfect attack on so many records could refute the promise."""
    scores: tuple[ScoreFinding, ...]
    """One finding for each score."""
    blocks: tuple[ScoreBlock, ...]
    """Where the scores are."""
    seconds: float
    """Time of scoring."""
    shadows: ShadowUse | None = None
    """Shadow models of the likelihood ratios; None where there were none."""

    @property
    def best(self) -> ScoreFinding:
        """The score that proves most; the tests of all of them hold together."""
        return max(
            self.scores, key=lambda one: (one.refutes, one.tradeoff.mu_lower_bound, one.auc.area)
        )

    @property
    def verdict(self) -> MembershipVerdict:
        """Undecided: the files differ without the model, or are too small to refute anything."""
        if self.claim is None:
            return "no promise"
        if any(score.refutes for score in self.scores):
            return "undecided" if self.shift.found else "refuted"
        return "not refuted" if self.able else "undecided"

    @property
    def exit_code(self) -> int:
        """0: not refuted, or nothing is promised; 1: refuted; 2: undecided."""
        return {"refuted": 1, "undecided": 2}.get(self.verdict, 0)


def allowed_rate(claim: MembershipClaim | None, fpr: float) -> float | None:
    """The most true positives that a promise allows at a false positive rate.

    Args:
        claim: The promise, or None.
        fpr: From 0 to 1.

    Returns:
        The rate; None without a promise.
    """
    return None if claim is None else promised_rate(claim.curve, fpr)

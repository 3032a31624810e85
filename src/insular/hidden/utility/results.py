"""What a release costs in next-token predictions, as measured. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular.hidden.utility.intervals import MeanInterval


@final
@dataclass(frozen=True, kw_only=True)
class PerplexityChange:
    """How much less likely the data's next tokens became."""

    clean: float
    """Perplexity of the unchanged model: exp of the mean negative log-probability."""
    released: float
    """Perplexity from the released states."""
    change_nats: MeanInterval
    """Mean rise of the negative log-probability, paired by prompt: log of the ratio of both."""

    @property
    def ratio(self) -> float:
        """Released over clean perplexity."""
        return self.released / self.clean


@final
@dataclass(frozen=True, kw_only=True)
class UtilityResult:
    """Measured utility of one mechanism at one layer and scale."""

    layer: int
    """The output of that block, from 0."""
    scale: float
    """What the mechanism's noise was multiplied by."""
    n_prompts: int
    """Distinct held-out prompts."""
    draws: int
    """Releases of each prompt."""
    seed: int
    """Seed of the draws: results of equal seed and prompts share their random numbers."""
    prompts_digest: str
    """SHA-256 over the prompts' digests."""
    kl_nats: MeanInterval
    """KL of the released next-token distribution from the clean one, mean over prompts."""
    kl_median_nats: float
    """Median over prompts of the same."""
    agreement: MeanInterval
    """Share of prompts whose most likely next token stays."""
    perplexity: PerplexityChange | None
    """On the data's next tokens; None if the prompts had none."""

    def matches(self, other: "UtilityResult") -> bool:
        """Whether two mechanisms may be compared: same prompts, KL intervals that overlap.

        Args:
            other: The other mechanism's utility.

        Returns:
            True if neither costs measurably more.
        """
        return self.prompts_digest == other.prompts_digest and self.kl_nats.overlaps(other.kl_nats)


@final
@dataclass(frozen=True, kw_only=True)
class ReplacementEntry:
    """One deterministic replacement of the states, and what it did."""

    protocol: str
    """``injection``: the tail runs on it. ``readout``: final norm and head alone, both sides."""
    part: str
    """``inside`` keeps the basis' part of the state, ``outside`` the rest."""
    basis: str
    """``given``, or ``random`` of the same rank."""
    kl_nats: MeanInterval
    """KL from the unreplaced distribution of the same protocol."""
    kl_median_nats: float
    """Median over prompts."""
    agreement: MeanInterval
    """Share of prompts whose most likely token stays."""


@final
@dataclass(frozen=True, kw_only=True)
class ProjectionResult:
    """Projections onto a basis and onto its complement, beside random ones."""

    layer: int
    """The output of that block, from 0."""
    rank: int
    """Columns of the basis."""
    hidden: int
    """Width of the states."""
    centred: bool
    """Whether mu + P (h - mu) was used, or P h. The two can point opposite ways."""
    seed: int
    """Seed of the random bases."""
    entries: tuple[ReplacementEntry, ...]
    """Protocol by protocol; the given basis before the random ones."""

    def entry(self, protocol: str, part: str, basis: str = "given") -> ReplacementEntry:
        """One entry.

        Args:
            protocol: ``injection`` or ``readout``.
            part: ``inside`` or ``outside``.
            basis: ``given`` or ``random``.

        Returns:
            The first that fits.

        Raises:
            KeyError: If none does.
        """
        for one in self.entries:
            if (one.protocol, one.part, one.basis) == (protocol, part, basis):
                return one
        raise KeyError((protocol, part, basis))


@final
@dataclass(frozen=True, kw_only=True)
class TransplantEntry:
    """One component of each state taken from another prompt's."""

    part: str
    """``inside`` takes the basis' part from the donor, ``outside`` the rest."""
    kl_from_own_nats: MeanInterval
    """KL from the prompt's own prediction."""
    agreement_with_own: MeanInterval
    """Share that keeps its own most likely token."""
    kl_from_donor_nats: MeanInterval
    """KL from the donor's prediction, which had the donor's earlier positions."""
    agreement_with_donor: MeanInterval
    """Share that takes the donor's most likely token."""


@final
@dataclass(frozen=True, kw_only=True)
class TransplantResult:
    """Both transplants, at one layer."""

    layer: int
    """The output of that block, from 0."""
    rank: int
    """Columns of the basis."""
    seed: int
    """Seed of the pairing."""
    entries: tuple[TransplantEntry, ...]
    """``inside``, then ``outside``."""

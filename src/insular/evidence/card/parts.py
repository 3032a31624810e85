"""The groups of a release card, from the top of the pyramid of NIST SP 800-226 to its bottom.

A fact that nobody stated is None. Nothing on a card is private: no count of the data but a declared
one, no digest of it, no realised batch.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, final

from insular.accounting import Accountant, NoiseSource, Relation, Unit

Claim = Literal["holds", "does not hold", "undecided"]


@final
@dataclass(frozen=True, kw_only=True)
class Basic:
    """What the run was, and who answers for it."""

    name: str
    """Name of the run."""
    kind: Literal["audit", "training"]
    """Audits measure a stack and release nothing; training releases a model."""
    description: str
    """The run in one sentence."""
    data_curators: tuple[str, ...] | None
    """Who holds the data and answers for the release."""
    intended_use: str | None
    """What the release is for."""
    data_product_type: str
    """What is let out."""
    data_product_region: str | None
    """Where the people in the data live."""
    data_product_sector: str | None
    """Sector, such as health or education."""
    publication_date: str | None
    """Day of the release, as YYYY-MM-DD."""


@final
@dataclass(frozen=True, kw_only=True)
class ReleasedArtifact:
    """A file that left, or may leave."""

    file: str
    """Path within the run's folder."""
    sha256: str
    """Digest."""
    size_bytes: int
    """Size."""


@final
@dataclass(frozen=True, kw_only=True)
class AccountantEpsilon:
    """What one accountant found."""

    accountant: Accountant
    """Which accountant."""
    epsilon: float
    """In nats."""
    delta: float
    """Probability beside it."""
    standing: Literal["guarantee", "estimate"]
    """A guarantee is never below the truth."""
    method: str
    """How it found the number."""
    caveat: str
    """Why it is only an estimate; empty for a guarantee."""
    version: str
    """Packages and versions that computed."""


@final
@dataclass(frozen=True, kw_only=True)
class PrivacyLoss:
    """Privacy parameters and the unit of privacy: the strength of the guarantee."""

    variant_name: Literal["Approximate DP"]
    """Variant of differential privacy."""
    epsilon: float
    """In nats: what the first of ``accountants`` found for what ran. A promise if ``claim`` is
    ``holds``, and else a number."""
    delta: float
    """Probability with which the promise may fail."""
    delta_reason: str | None
    """Why this delta."""
    delta_times_units: float | None
    """Delta over 1/n, n the privacy units. At 1 or above, publishing one unit whole would satisfy
    the guarantee."""
    delta_times_units_squared: float | None
    """Delta over 1/n^2."""
    privacy_unit: Unit
    """Whose presence is hidden."""
    privacy_unit_details: str
    """What makes one such unit."""
    number_of_privacy_units: int | None
    """Declared public number of units, which rate and delta rest on."""
    adjacency: Relation
    """Which data sets are neighbours."""
    accountants: tuple[AccountantEpsilon, ...]
    """Epsilon of the same transcript by each accountant."""


@final
@dataclass(frozen=True, kw_only=True)
class Implementation:
    """The algorithm, and whether what ran is what was planned."""

    mechanisms: str
    """Mechanism of one release."""
    composition: str
    """What was composed, and how."""
    sampler: str
    """How the units of a step were drawn."""
    sampler_parameters: dict[str, float]
    """Its public parameters by name."""
    clip_norm: float
    """Bound C of one unit's contribution."""
    clipping: str
    """The clipping rule."""
    influence: float
    """Sensitivity over C under add or remove one: 1 where records are isolated, 2m + 1 where one
    record may change m others."""
    noise_multiplier: float
    """Noise standard deviation over C times ``influence``."""
    noise_std: float
    """Standard deviation of the noise on the sum."""
    noise_source: NoiseSource
    """Generator of the noise; ``seeded`` protects nothing."""
    noise: str
    """The generator in words."""
    expected_batch_size: float
    """Public divisor of the noisy sum."""
    steps: int
    """Planned steps."""
    n_releases: int
    """Noisy sums that ran and were accounted for, those of repeated steps included."""
    n_starts: int
    """Starts of the run; more than 1 means that it was resumed."""
    n_differences: int
    """Ways in which what ran was not what was planned."""
    training_happened: bool
    """Whether every trainable tensor had a gradient, moved and was saved."""
    backbone: str
    """How the frozen layers computed."""
    post_processing: str
    """What was done with the noisy sums: optimiser and schedule."""
    preprocessing_and_hyperparameter_tuning: str | None
    """What earlier runs on the same data spent: each that read it costs privacy too."""
    justification: str | None
    """Why these parameters."""


@final
@dataclass(frozen=True, kw_only=True)
class IsolationFact:
    """Whether the stack kept records apart: what the accountant takes for granted."""

    verdict: Literal["isolated", "coupled", "undecided"]
    """What the audit found."""
    stack: str
    """Name of the stack."""
    path: str | None
    """The execution path that the verdict holds for, and no other."""
    n_comparisons: int | None
    """Comparisons at equal shape that the verdict rests on."""
    largest_movement: float | None
    """Furthest that a clipped gradient moved at equal shape, in units of C."""
    sensitivity_ratio: float | None
    """Distance of two clipped sums that one added record made, in units of C; a lower bound."""
    accepted: str
    """Why a coupled stack was used all the same; empty where it was not."""
    evidence_sha256: str
    """Digest of the audit's results."""


@final
@dataclass(frozen=True, kw_only=True)
class UtilityFact:
    """Utility and accuracy, measured on public text."""

    text: str
    """The public text."""
    n_records: int
    """Its records."""
    before_nats: float
    """Mean loss per token of the base model, in nats."""
    after_nats: float
    """The same of what was released."""


@final
@dataclass(frozen=True, kw_only=True)
class LowerBound:
    """What an attack on the release proved."""

    attack: str
    """Which attack."""
    epsilon_lower_bound: float
    """Epsilon is at least this, in nats."""
    delta: float
    """At this delta."""
    significance: float
    """Probability that the bound is wrong."""
    refutes: bool
    """Whether the attack refutes what is claimed."""
    evidence_sha256: str
    """Digest of the attack's results."""


@final
@dataclass(frozen=True, kw_only=True)
class DeploymentModel:
    """What the guarantee stands on: trust model, side channels, security, data collection."""

    model_name: Literal["Central"]
    """Trust model: the curator holds the raw records."""
    trust_assumptions: str | None
    """Who must be trusted not to look or to tell."""
    access_type: str | None
    """Who can use the release, and how."""
    side_channels: str | None
    """What else an observer sees, such as time, memory or logs, and what was done about it."""
    data_security_and_access_control: str | None
    """Who can reach the raw records."""
    data_collection_exposure: str | None
    """Who saw the records before they were used."""


@final
@dataclass(frozen=True, kw_only=True)
class BaseModel:
    """The model that was there before."""

    name: str
    """Its name."""
    sha256: str | None
    """Digest of its weights, possibly cut short."""
    pretraining_data: str | None
    """What it had already seen. A record that is in there is not protected."""
    guarantee_covers: Literal["the fine-tuning data only", "nothing: an audit promises no epsilon"]
    """The data that the guarantee is about."""


@final
@dataclass(frozen=True, kw_only=True)
class LedgerReference:
    """Where the spending is kept; amounts are exact decimals."""

    ledger: str
    """Path, or address without its password."""
    population: str
    """Whose budget."""
    release: str
    """Name of the release in the ledger."""
    reserved_epsilon: Decimal
    """Reserved before the run."""
    reserved_delta: Decimal
    """Likewise."""
    committed_epsilon: Decimal | None
    """What the run was charged."""
    committed_delta: Decimal | None
    """Likewise."""
    head: str | None
    """``NUMBER:SHA256`` of the last entry after the commit."""


@final
@dataclass(frozen=True, kw_only=True)
class Code:
    """What computed."""

    insular_version: str
    """Version of insular."""
    code_revision: str
    """Git commit of its source, ``+changes`` if files differ; empty for an installed package."""
    python: str
    """Version of the interpreter."""
    platform: str
    """Operating system and architecture."""
    packages: dict[str, str]
    """Versions of the packages that can change a number."""


@final
@dataclass(frozen=True, kw_only=True)
class CardFile:
    """A file of the run that the card was made from."""

    name: str
    """Path within the run's folder."""
    sha256: str
    """Digest."""

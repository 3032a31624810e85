"""What a mechanism costs in privacy: events, accountants, trade-off curves, calibration."""

from insular.accounting.accountants import compare, spend, spend_delta
from insular.accounting.calibration import (
    CalibratedNoise,
    NoisyRun,
    Run,
    noise_for_advantage,
    noise_for_epsilon,
    noise_for_true_positive_rate,
)
from insular.accounting.composition import composed_epsilon
from insular.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupedPoissonGaussianEvent,
    LaplaceEvent,
    Mechanism,
    NoiseSource,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    RepeatAndSelectEvent,
    RepeatedEvent,
    TruncatedPoissonGaussianEvent,
    Unit,
)
from insular.accounting.influence import (
    RELATIONS,
    Relation,
    group_privacy,
    influence_bound,
    neighboring_relation,
    separable_bound,
)
from insular.accounting.noise_size import step_noise_rms, sum_noise_rms
from insular.accounting.pair import implied_epsilon, pair_delta, pair_epsilon
from insular.accounting.rates import sampling_prob_of
from insular.accounting.results import ACCOUNTANTS, Accountant, PrivacyCost, Refusal
from insular.accounting.tradeoff import (
    TradeoffCurve,
    advantage,
    tradeoff_curve,
    true_positive_rate,
)

__all__ = [
    "ACCOUNTANTS",
    "RELATIONS",
    "Accountant",
    "CalibratedNoise",
    "ComposedEvent",
    "Event",
    "GaussianEvent",
    "GroupedPoissonGaussianEvent",
    "LaplaceEvent",
    "Mechanism",
    "NoiseSource",
    "NoisyRun",
    "PoissonGaussianEvent",
    "PrivacyCost",
    "RandomizedResponseEvent",
    "Refusal",
    "Relation",
    "RepeatAndSelectEvent",
    "RepeatedEvent",
    "Run",
    "TradeoffCurve",
    "TruncatedPoissonGaussianEvent",
    "Unit",
    "advantage",
    "compare",
    "composed_epsilon",
    "group_privacy",
    "implied_epsilon",
    "influence_bound",
    "neighboring_relation",
    "noise_for_advantage",
    "noise_for_epsilon",
    "noise_for_true_positive_rate",
    "pair_delta",
    "pair_epsilon",
    "step_noise_rms",
    "sampling_prob_of",
    "sum_noise_rms",
    "separable_bound",
    "spend",
    "spend_delta",
    "tradeoff_curve",
    "true_positive_rate",
]

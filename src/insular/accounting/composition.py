"""The privacy cost of a run of equal steps, as one number."""

from insular import _check
from insular.accounting.accountants import spend
from insular.accounting.events import PoissonGaussianEvent, RepeatedEvent
from insular.accounting.influence import Relation
from insular.accounting.results import Accountant


def composed_epsilon(
    noise_multiplier: float,
    *,
    sampling_prob: float,
    steps: int,
    delta: float,
    accountant: Accountant = "pld",
    relation: Relation = "add_or_remove_one",
) -> float:
    """Epsilon of a run of equal Poisson-sampled Gaussian steps.

    With a measured ratio kappa of the clipped sum's movement over its separable bound, ask for
    ``noise_multiplier / kappa``: what the run would spend if each step moved that far.

    Guarantees:
        * Those of ``spend``, which also says what the number rests on.

    Args:
        noise_multiplier: Noise standard deviation over the clip norm.
        sampling_prob: Probability with which each unit enters a step.
        steps: Steps of the run.
        delta: From 0, below 1.
        accountant: Who computes.
        relation: Which data sets are neighbours.

    Returns:
        Epsilon in nats.
    """
    _check.at_least(0, steps=steps)
    step = PoissonGaussianEvent(
        noise_multiplier=noise_multiplier,
        sampling_prob=sampling_prob,
        relation=relation,
        unit="record",
    )
    event = RepeatedEvent(event=step, count=steps)
    return spend(event, delta=delta, accountant=accountant).epsilon

"""Short ways to write events."""

from insular.accounting import PoissonGaussianEvent, Relation, RepeatedEvent


def sampled(
    q: float, noise: float, steps: int, relation: Relation = "add_or_remove_one"
) -> RepeatedEvent:
    """Equal Poisson-sampled Gaussian steps."""
    step = PoissonGaussianEvent(
        noise_multiplier=noise, sampling_prob=q, relation=relation, unit="record"
    )
    return RepeatedEvent(event=step, count=steps)

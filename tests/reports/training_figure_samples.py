"""Samples of the figures of a training run."""

import math
import random

from insular.reports import (
    EpsilonPoint,
    StepClipping,
    StepLoss,
    StepNorms,
    training_clipping_figure,
    training_epsilon_figure,
    training_loss_figure,
    training_noise_figure,
)

from .sample import Sample

DRAW = random.Random(3)


def losses(n: int) -> tuple[StepLoss, ...]:
    return tuple(
        StepLoss(step=i, loss_nats=None if i == 7 else 3.5 - i / n + DRAW.gauss(0, 0.1))
        for i in range(n)
    )


def clipping(n: int) -> tuple[StepClipping, ...]:
    return tuple(
        StepClipping(
            step=i,
            clipped_share=None if i == 7 else DRAW.random(),
            median_norm=None if i == 7 else 0.2 * math.exp(DRAW.gauss(0, 0.3)),
        )
        for i in range(n)
    )


def norms(n: int) -> tuple[StepNorms, ...]:
    return tuple(
        StepNorms(
            step=i,
            signal_norm=0.0 if i == 7 else math.exp(DRAW.gauss(0, 0.2)),
            noise_norm=50 + DRAW.random(),
        )
        for i in range(n)
    )


def spent(*counts: int) -> tuple[EpsilonPoint, ...]:
    return tuple(EpsilonPoint(n_releases=n, epsilon=0.2 * math.sqrt(n)) for n in counts)


PROMISE = {"promise": 2.8284, "target": 3.0, "n_releases": 200}
TRAINING = {
    "training loss": Sample(training_loss_figure, losses(200), {}),
    "training clipping": Sample(training_clipping_figure, clipping(200), {"clip_norm": 0.1}),
    "training noise": Sample(training_noise_figure, norms(200), {}),
    "training epsilon": Sample(training_epsilon_figure, spent(*range(20, 201, 20)), PROMISE),
}
LONG = {
    "loss": Sample(training_loss_figure, losses(10_000), {}),
    "clipping": Sample(training_clipping_figure, clipping(10_000), {"clip_norm": 0.1}),
    "noise": Sample(training_noise_figure, norms(10_000), {}),
}

"""Private gradient descent on synthetic data: the same budget costs far less with more data.

    python dp_gd.py                      # a table, in seconds
    python dp_gd.py --figure dp_gd.svg   # and a figure

Everything is synthetic: 20 features and a bias, labels from a logistic model with known weights.
Every step sees all records (full batch), so 100 steps are 100 Gaussian mechanisms, and the
classical Renyi conversion needs no more than T a / (2 s^2) + log(1/delta) / (a - 1). The noise
that hides one record is s C, whatever the number of records: with ten times the records, the same
noise is a tenth of the mean. Noise is seeded, to give the same table each time; a run that is
meant to protect takes `SecureStream()` instead.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from insular.accounting import Event, GaussianEvent, RepeatedEvent, spend
from insular.mechanisms.keystream import SeededStream
from insular.training.clipping import FlatClipping
from insular.training.noise import GaussianNoise

STEPS, DELTA, CLIP_NORM, LEARNING_RATE, RUNS = 100, 1e-5, 1.0, 0.5, 5
RECORDS, NOISES = (200, 2000), (16.0, 64.0, 256.0)
FEATURES, TEST_RECORDS = 20, 5000


def make_data(n: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """Synthetic records: standard normal features and a 1, labels by a coin that they weight."""
    weights = torch.randn(FEATURES, generator=torch.Generator().manual_seed(0))
    dice = torch.Generator().manual_seed(seed)
    x = torch.randn(n, FEATURES, generator=dice)
    chance = torch.sigmoid(x @ (6 * weights / weights.norm()))
    y = (torch.rand(n, generator=dice) < chance).float()
    return torch.hstack([x, torch.ones(n, 1)]), y


def train(x: Tensor, y: Tensor, *, noise_multiplier: float, seed: int) -> Tensor:
    """The four lines of private gradient descent; a noise multiplier of 0 protects nothing."""
    clipping = FlatClipping(clip_norm=CLIP_NORM)
    noise = GaussianNoise(SeededStream(seed))
    w = torch.zeros(x.shape[1])
    for step in range(STEPS):
        gradients = (torch.sigmoid(x @ w) - y)[:, None] * x  # a row for each record
        contributions, _ = clipping.clip(gradients)
        total = contributions.sum(0)
        if noise_multiplier:
            drawn = noise.draw(len(w), noise_std=noise_multiplier * CLIP_NORM, step=step)
            total = noise.add(total, drawn)
        w = w - LEARNING_RATE * total / len(y)
    return w


def mean_accuracy(n: int, *, noise_multiplier: float, runs: int) -> float:
    """Accuracy on fresh records, the mean of several trainings on several data sets."""
    test_x, test_y = make_data(TEST_RECORDS, seed=1_000_000)
    found = []
    for run in range(runs):
        x, y = make_data(n, seed=1 + run)
        w = train(x, y, noise_multiplier=noise_multiplier, seed=run)
        found.append(float((((test_x @ w) > 0).float() == test_y).float().mean()))
    return math.fsum(found) / runs


def event(noise_multiplier: float) -> Event:
    """What the training is to an accountant: equal steps that all records enter."""
    step = GaussianEvent(
        noise_multiplier=noise_multiplier,
        relation="add_or_remove_one",
        unit="record",
        noise_source="seeded",
    )
    return RepeatedEvent(event=step, count=STEPS)


def draw_figure(path: Path, *, runs: int) -> None:
    """Left: epsilon against noise. Right: accuracy against epsilon, for both numbers of records."""
    from insular.reports.figures import _canvas as canvas

    noises = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0]
    epsilons = [spend(event(noise), delta=DELTA).epsilon for noise in noises]
    with canvas.settings():
        figure = canvas.empty_figure(2.9)
        left, right = figure.subplots(1, 2)
        left.loglog(noises, epsilons, color=canvas.INK, marker="o", markersize=4)
        left.set_xlabel("noise multiplier")
        left.set_ylabel("epsilon, nats")
        for n, marker, dashes in zip(RECORDS, "os", ("--", "-"), strict=True):
            accuracies = [mean_accuracy(n, noise_multiplier=noise, runs=runs) for noise in noises]
            right.semilogx(
                epsilons,
                accuracies,
                color=canvas.INK,
                marker=marker,
                markersize=4,
                linestyle=dashes,
                label=f"{n} records",
            )
        right.set_xlabel("epsilon, nats")
        right.set_ylabel("accuracy")
        right.legend(frameon=False, loc="lower right")
        path.write_text(canvas.svg_text(figure, "dp-gd"), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and draw if asked."""
    parser = argparse.ArgumentParser(description="Private gradient descent on synthetic data.")
    parser.add_argument("--figure", type=Path, help="SVG file to draw into")
    parser.add_argument("--runs", type=int, default=RUNS, help="trainings behind each accuracy")
    given = parser.parse_args(arguments)
    print(f"{STEPS} full-batch steps, clip norm {CLIP_NORM:g}, delta {DELTA:g}, synthetic data")
    print(f"accuracy: mean of {given.runs} runs on {TEST_RECORDS} fresh records")
    print("records  noise  epsilon (rdp-classical)  epsilon (pld)  accuracy")
    for n in RECORDS:
        for noise in NOISES:
            classical = spend(event(noise), delta=DELTA, accountant="rdp-classical").epsilon
            exact = spend(event(noise), delta=DELTA, accountant="pld").epsilon
            accuracy = mean_accuracy(n, noise_multiplier=noise, runs=given.runs)
            print(f"{n:7}  {noise:5g}  {classical:23.2f}  {exact:13.2f}  {accuracy:8.3f}")
        baseline = mean_accuracy(n, noise_multiplier=0.0, runs=given.runs)
        print(f"{n:7}   none  {'no promise':>23}  {'no promise':>13}  {baseline:8.3f}")
    if given.figure is not None:
        draw_figure(given.figure, runs=given.runs)
        print(f"figure: {given.figure}")


if __name__ == "__main__":
    main()

"""Time releases of one DP-SGD step against the noise that they need anyway, side by side.

Prints releases a second of one core and the median of the ratio, both in one process, turn by turn.

    python benchmarks/release.py --coordinates 294912 460800 --draws 256 --repeats 9
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from insular.audit.release.draws import ReleasedStep, Releaser, draw_exact_scalar


def step_of(n: int, *, ratio: float = 1.065) -> ReleasedStep:
    """A step of n coordinates, from a drawn adapter."""
    rng = np.random.default_rng(0)
    moved = rng.standard_normal(n)
    moved *= 0.25 * ratio / np.linalg.norm(moved)
    base = 0.001 * rng.standard_normal(n)
    return ReleasedStep(
        start=rng.uniform(-0.04, 0.04, n).astype(np.float32),
        sums=(base.astype(np.float32), (base + moved).astype(np.float32)),
        clip_norm=0.25,
        noise_multiplier=1.0,
        expected_batch_size=8.0,
        learning_rate=0.01,
    )


def seconds(run: Callable[[], object]) -> float:
    """Time of one call."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    """Time, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--coordinates", type=int, nargs="+", default=[294_912, 460_800])
    parser.add_argument("--draws", type=int, default=256, help="a multiple of 64")
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'coordinates':>12}{'noise/s':>10}{'releases/s':>12}{'over noise':>12}")
    for n in given.coordinates:
        releaser, vector = Releaser(step_of(n)), torch.empty(n)
        generator = torch.Generator().manual_seed(1)

        def noise(vector: torch.Tensor = vector, generator: torch.Generator = generator) -> None:
            for _ in range(given.draws):
                vector.normal_(0.0, 0.25, generator=generator)

        def release(releaser: Releaser = releaser) -> None:
            releaser.draw(given.draws, with_record=True, seed=2)

        noise(), release()
        pairs = [(seconds(noise), seconds(release)) for _ in range(given.repeats)]
        alone, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        print(f"{n:12,}{given.draws / alone:10.0f}{given.draws / whole:12.0f}{ratio:12.2f}")
    many = 10_000_000
    took = seconds(lambda: draw_exact_scalar(1.065, many, with_record=True, seed=3))
    print(f"exact scalar: {many / took:,.0f} a second")


if __name__ == "__main__":
    main()

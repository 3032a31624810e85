"""Time a retrieval attack against the plain float32 product that it needs anyway, side by side.

Prints seconds of preparing the bank and of the attack, and the median over the turns of the
product's time over the attack's, all in one process on one thread. An attacker who compares fewer
numbers than a state has, as in a small null space, may be above 1; dropout needs two products.

    python benchmarks/retrieval.py --queries 2000 --candidates 50000 --hidden-size 576
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from insular.hidden.geometry.release_geometry import release_geometry
from insular.hidden.mechanisms import AdaptiveOptimum, Complement, Dropout
from insular.hidden.retrieval.attackers import AwareAttacker, EuclideanAttacker
from insular.hidden.retrieval.bank import prepare_bank
from insular.hidden.retrieval.search import rank_queries


def seconds(run: Callable[[], object]) -> float:
    """Time of one call."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    """Time, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--candidates", type=int, default=50_000)
    parser.add_argument("--hidden-size", type=int, default=576)
    parser.add_argument("--budget-nats", type=float, default=30.0)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)

    def normal(n: int) -> torch.Tensor:
        shape = (n, given.hidden_size)
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    spread = torch.logspace(0, -2, given.hidden_size, dtype=torch.float64)
    states = normal(given.candidates) * spread.flip(0) * 10 + 5
    geometry = release_geometry(
        states[:4000], normal(2000) * spread, fisher_shrinkage=0.01, state_shrinkage=0.01
    )
    truth = torch.arange(given.queries)
    left, right = (rows.float() for rows in (states[: given.queries], states))
    product = torch.empty(min(given.queries, 512), given.candidates)

    def plain() -> None:
        for block in left.split(512):
            torch.mm(block, right.T, out=product[: len(block)])

    n_terms = 2 * given.queries * given.candidates * given.hidden_size
    print(f"{'attacker':<32}{'bank s':>8}{'attack s':>10}{'GFLOP/s':>9}{'of plain':>10}")
    aware = (AdaptiveOptimum(), Complement(rank=64), Dropout())
    releases = [mechanism.fit(geometry, budget_nats=given.budget_nats) for mechanism in aware]
    attackers = [EuclideanAttacker(size=given.hidden_size)]
    attackers += [AwareAttacker(release=release) for release in releases]
    for attacker, release in zip(attackers, [releases[0], *releases], strict=True):
        released = release.sample(states[: given.queries], generator=generator)
        started = time.perf_counter()
        bank = prepare_bank(attacker, states)
        prepared = time.perf_counter() - started

        def attack(bank=bank, released=released) -> None:
            rank_queries(bank, released, truth)

        plain()
        attack()
        pairs = [(seconds(plain), seconds(attack)) for _ in range(given.repeats)]
        took = statistics.median(pair[1] for pair in pairs)
        ratio = statistics.median(pair[0] / pair[1] for pair in pairs)
        rate = n_terms / took / 1e9
        print(f"{attacker.name:<32}{prepared:8.1f}{took:10.2f}{rate:9.0f}{ratio:10.2f}")


if __name__ == "__main__":
    main()

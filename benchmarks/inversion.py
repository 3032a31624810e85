"""Tokens tried until a state is explained: our ranking against a plain gradient-guided search.

The search is a plain reading of the published algorithm: an embedding is moved by gradient steps
towards the given state, and after each step the nearest token that was not tried is tried, until
one has the state. It is given the true prefix of each position; ours has to find it. What both pay
for is a state at the layer: of a token, or of the moved embedding (with a backward pass besides).

    python benchmarks/inversion.py --layer 1 --prompts 3 --tokens 12
"""

import argparse
import statistics
import time
from dataclasses import dataclass

import torch
from torch import Tensor

from insular.hidden.inversion.prefix import Prefixes, PrefixRunner
from insular.hidden.inversion.search import invert_states
from insular.hidden.inversion.token_ranking import TokenRanking
from insular.hidden.inversion.token_table_cache import cached_token_tables
from insular.hidden.inversion.views import make_view
from insular.hidden.states.block_calls import overhearing
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.storage import Storage
from insular.hidden.store.hidden_store import HiddenStore
from insular.models.loading import Decoder, load_decoder
from insular.models.structure import embedding, find_blocks
from insular.recipes.hidden.inversion.run import calibration_records
from insular.records import read_packaged
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord

TOLERANCE = 1e-3
"""Relative distance at which a state is the given one."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What it took to find one token."""

    steps: int
    """Gradient steps, each a state of no token."""
    tokens: int
    """Tokens tried."""

    @property
    def states(self) -> int:
        """States computed."""
        return self.steps + self.tokens


class GradientSearch:
    """Finds the token of a state by moving an embedding."""

    def __init__(self, decoder: Decoder, layer: int, *, steps: int, rate: float) -> None:
        self._split = SplitDecoder(decoder.model)
        self._layer = layer
        self._steps = steps
        self._rate = rate
        blocks = find_blocks(decoder.model)
        self._blocks = blocks.modules
        self._trunk = decoder.model.get_submodule(blocks.name.rpartition(".")[0])
        self._rows = embedding(decoder.model).weight.detach()  # pyright: ignore
        self._runner = PrefixRunner(self._split, layer=layer)

    def find(self, prefix: Tensor, target: Tensor) -> Cost:
        """Step, try the nearest token that was not tried, and so on; then all others in order."""
        prefixes = self._runner.start(prefix[None]) if len(prefix) else self._runner.empty()
        moved = self._rows.mean(0).clone().requires_grad_(True)
        optimiser = torch.optim.Adam([moved], lr=self._rate)
        untried = torch.ones(len(self._rows), dtype=torch.bool)
        for step in range(1, self._steps + 1):
            self._move(moved, optimiser, prefix, target)
            apart = (self._rows - moved.detach()).square().sum(1)
            nearest = apart.masked_fill(~untried, torch.inf).argmin()[None]
            untried[nearest] = False
            if bool(self._matches(prefixes, nearest, target)[0]):
                return Cost(steps=step, tokens=step)
        apart = (self._rows - moved.detach()).square().sum(1)
        order = apart.masked_fill(~untried, torch.inf).argsort()[: int(untried.sum())]
        for start in range(0, len(order), 512):
            found = self._matches(prefixes, order[start : start + 512], target)
            if bool(found.any()):
                more = start + int(found.nonzero()[0]) + 1
                return Cost(steps=self._steps, tokens=self._steps + more)
        return Cost(steps=self._steps, tokens=len(untried))

    def _move(
        self, moved: Tensor, optimiser: torch.optim.Optimizer, prefix: Tensor, target: Tensor
    ) -> None:
        """One gradient step of the embedding towards the state."""
        whole = torch.cat([self._rows[prefix][None], moved[None, None]], dim=1)
        with overhearing(self._trunk, self._blocks, layers=[self._layer], stop=True) as heard:
            self._trunk(inputs_embeds=whole, use_cache=False)
        loss = (heard.outputs[self._layer][0, -1] - target).square().sum()
        (moved.grad,) = torch.autograd.grad(loss, [moved])
        optimiser.step()

    def _matches(self, prefixes: Prefixes, tokens: Tensor, target: Tensor) -> Tensor:
        """Which tokens have the state."""
        found = self._runner.continued(prefixes, torch.zeros_like(tokens), tokens)
        return (found.states - target).norm(dim=1) <= TOLERANCE * target.norm()


def chosen_records(decoder: Decoder, *, prompts: int, tokens: int) -> list[TokenisedRecord]:
    """Wikipedia prompts that are not in the calibration text."""
    found: list[TokenisedRecord] = []
    for record in read_packaged("wikipedia").records[3::7]:
        ids = decoder.encode(record.text)
        if len(ids) >= tokens:
            found.append(
                TokenisedRecord(id=record.id, owner=record.owner, tokens=tuple(ids[:tokens]))
            )
        if len(found) == prompts:
            return found
    raise SystemExit(f"the text has {len(found)} such prompts; lower --prompts or --tokens.")


def compare_searches(arguments: argparse.Namespace, decoder: Decoder) -> None:
    """Print tokens tried and seconds of both."""
    split = SplitDecoder(decoder.model)
    table = cached_token_tables(
        split,
        calibration_records(decoder),
        layers=[arguments.layer],
        model_digest=decoder.digest,
        progress=print,
    )[arguments.layer]
    ranking = TokenRanking(table)
    search = GradientSearch(decoder, arguments.layer, steps=arguments.steps, rate=arguments.rate)
    records = chosen_records(decoder, prompts=arguments.prompts, tokens=arguments.tokens)
    ours: list[float] = []
    theirs: list[Cost] = []
    seconds: dict[str, list[float]] = {"ours": [], "gradient": []}
    exact = 0
    for record in records:
        batch = collate([record], pad_token_id=decoder.pad_token_id)
        states = split.states(batch, layers=[arguments.layer])[arguments.layer][0]
        view = make_view(Storage().store(states), rounding=table.rounding)
        found = invert_states(split, view, ranking=ranking)
        exact += found.tokens == record.tokens
        ours += found.tried
        seconds["ours"].append(found.seconds / len(record.tokens))
        start = time.perf_counter()
        tokens = torch.tensor(record.tokens)
        theirs += [search.find(tokens[:at], states[at]) for at in range(len(tokens))]
        seconds["gradient"].append((time.perf_counter() - start) / len(record.tokens))
    print(f"layer {arguments.layer}: {exact} of {len(records)} prompts exact")
    counts = {"ours": ours, "gradient": [cost.states for cost in theirs]}
    for name, states_computed in counts.items():
        print(
            f"  {name:9} states computed a token: mean {statistics.mean(states_computed):.1f}, "
            f"median {statistics.median(states_computed):.0f}; "
            f"{statistics.median(seconds[name]):.3f} s a token"
        )
    print(f"  gradient: of these, tokens tried {statistics.mean(c.tokens for c in theirs):.1f}")
    print(f"  ratio of means {statistics.mean(counts['gradient']) / statistics.mean(ours):.1f}")


def write_overhead(*, rows: int = 4096, hidden: int = 576, repeats: int = 9) -> float:
    """Time of writes to a store, with noise that protects, over that noise alone, less 1."""
    from insular.hidden.matrices.draws import SecureDraws
    from insular.hidden.matrices.spectral import isotropic_matrix
    from insular.hidden.mechanisms import GaussianRelease, Isotropic

    release = GaussianRelease(
        mechanism=Isotropic(), budget_nats=1.0, covariance=isotropic_matrix(hidden, 0.01)
    )
    states = torch.randn(rows, hidden)
    ids = [str(row) for row in range(rows)]
    seconds: dict[str, list[float]] = {"noise": [], "write": []}
    for _ in range(repeats):
        start = time.perf_counter()
        release.sample(states, generator=SecureDraws())
        middle = time.perf_counter()
        HiddenStore(hidden_size=hidden, release=release).write(ids, states)
        seconds["noise"].append(middle - start)
        seconds["write"].append(time.perf_counter() - middle)
    return statistics.median(seconds["write"]) / statistics.median(seconds["noise"]) - 1


def main() -> None:
    """Compare, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layer", type=int, default=1)
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--steps", type=int, default=200, help="Most gradient steps a token.")
    parser.add_argument("--rate", type=float, default=0.1, help="Of Adam; 0.1 was best of five.")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"store: a write takes {100 * write_overhead():.1f}% more than its noise alone")
    compare_searches(arguments, load_decoder("smollm2"))


if __name__ == "__main__":
    main()

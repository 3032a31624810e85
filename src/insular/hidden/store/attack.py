"""Who says whose the rows of an index are: knowing nothing of how they were made, or all of it."""

from collections.abc import Hashable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular.hidden.mechanisms import DropoutRelease, GaussianRelease, QuantizedRelease, Release
from insular.hidden.retrieval.attackers import Attacker, AwareAttacker, EuclideanAttacker
from insular.hidden.retrieval.bank import CandidateBank, prepare_bank
from insular.hidden.retrieval.search import rank_queries
from insular.hidden.states.storage import round_states
from insular.hidden.states.storage_spec import StorageFormat
from insular.hidden.store.cells import cell_ranks
from insular.hidden.store.hidden_store import kept_states
from insular.hidden.store.results import StoreAttack, StoreAttacker
from insular.hidden.utility.intervals import mean_interval


def attack_store(
    kept: Float[Tensor, "query hidden"],
    states: Float[Tensor, "record hidden"],
    *,
    release: Release | None,
    storage: StorageFormat,
    identities: Sequence[Hashable] | None = None,
    significance: float = 0.05,
) -> tuple[tuple[StoreAttack, ...], int]:
    """Attack rows of an index, with the clean states of all rows as candidates.

    Without noise the aware attacker rounds each candidate as the index did and looks for the same
    row. With Gaussian noise it measures distances in units of noise and rounding together; a third
    one goes by each number's cell, and takes the noise of each coordinate by itself.

    Guarantees:
        * Neither the order of the rows nor copies of one prompt change a share.
        * Where rounding leaves several prompts one row, each of them is named with its chance.

    Args:
        kept: Rows of the index, the first ones.
        states: Clean states of all rows, in the same order.
        release: The mechanism, at its scale; None for none.
        storage: Format of what is kept.
        identities: What tells prompts apart; by default their states.
        significance: Error probability of each interval.

    Returns:
        What each attacker names, and how many states are copies.
    """
    size, truth = states.shape[1], torch.arange(len(kept))
    clean = prepare_bank(EuclideanAttacker(size=size), states, identities=identities)
    prompts, rows = clean.kept_at, kept.double()

    def judged(attacker: StoreAttacker, first: Tensor, equal: Tensor) -> StoreAttack:
        chance = torch.where(first, 1 / equal.double(), 0.0)
        top1 = mean_interval(chance.numpy(), significance=significance, method="binomial")
        return StoreAttack(attacker=attacker, top1=top1, n_tied=int(((equal > 1) & first).sum()))

    def attack(attacker: StoreAttacker, bank: CandidateBank) -> StoreAttack:
        found = rank_queries(bank, rows, truth)
        merged = _prompts_of_each(bank.kept_at, prompts)[bank.kept_at[truth]]
        # a candidate that ties with the true one is one prompt more
        return judged(attacker, found.ranks == 1, merged + found.n_tied)

    aware = _aware(kept, states, release, storage)
    if isinstance(aware, Tensor):  # what the index makes of each candidate
        bank = prepare_bank(EuclideanAttacker(size=size), aware, identities=identities)
    else:
        bank = prepare_bank(aware, states, identities=identities)
    attacks = [attack("plain", clean), attack("aware", bank)]
    if isinstance(release, GaussianRelease) and storage != "float32":
        cells = cell_ranks(
            rows,
            clean.states,
            prompts[truth],
            variances=release.covariance.diagonal(),
            storage=storage,
        )
        attacks.append(judged("cells", cells.first == 1, 1 + cells.n_tied))
    return tuple(attacks), clean.n_duplicates


def _aware(
    kept: Tensor, states: Tensor, release: Release | None, storage: StorageFormat
) -> Tensor | Attacker:
    """What who knows mechanism and storage compares."""
    if release is None or isinstance(release, QuantizedRelease):
        return kept_states(states, release, storage, generator=torch.Generator())
    if isinstance(release, GaussianRelease) and storage != "float32":
        cells = round_states(kept, storage)[1]
        rounding = float((cells.square() / 3).mean(1).median())
        release = GaussianRelease(
            mechanism=release.mechanism,
            budget_nats=release.budget_nats,
            covariance=release.covariance.plus_identity(rounding),
        )
    assert isinstance(release, GaussianRelease | DropoutRelease)
    return AwareAttacker(release=release)


def _prompts_of_each(
    candidates: Int[Tensor, " record"], prompts: Int[Tensor, " record"]
) -> Int[Tensor, " candidate"]:
    """How many different prompts each candidate stands for."""
    pairs = torch.stack([candidates, prompts], 1).unique(dim=0)
    return torch.bincount(pairs[:, 0])

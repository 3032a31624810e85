"""Projections and transplants: by hand, at the ends of the rank, and what centring changes."""

import pytest
import torch

from hidden.decoder_samples import held, split
from insular.errors import InvalidArgumentError
from insular.evidence import decode, encode
from insular.hidden.utility.projections import (
    Projector,
    measure_projections,
    measure_transplants,
    random_basis,
)
from insular.hidden.utility.results import ProjectionResult
from models.families import HIDDEN


def basis(rank: int, seed: int = 0) -> torch.Tensor:
    return random_basis(HIDDEN, rank, generator=torch.Generator().manual_seed(seed))


def test_projection_by_hand() -> None:
    first = torch.tensor([[1.0], [0.0]])
    state, centre = torch.tensor([[3.0, 5.0]]), torch.tensor([1.0, 2.0])
    parts = {
        (part, centred): Projector(
            basis=first,
            part=part,
            centre=centre if centred else None,  # type: ignore[arg-type]
        )(state).tolist()
        for part in ("inside", "outside")
        for centred in (False, True)
    }
    assert parts["inside", False] == [[3.0, 0.0]]
    assert parts["outside", False] == [[0.0, 5.0]]
    assert parts["inside", True] == [[3.0, 2.0]]
    assert parts["outside", True] == [[1.0, 5.0]]


def test_parts_about_0_add_up_and_projecting_twice_changes_nothing() -> None:
    states = held().states(0)
    inside = Projector(basis=basis(5), part="inside", centre=None)
    outside = Projector(basis=basis(5), part="outside", centre=None)
    assert torch.allclose(inside(states) + outside(states), states, atol=1e-5)
    for one in (inside, outside):
        assert torch.allclose(one(one(states)), one(states), atol=1e-5)
    centred = Projector(basis=basis(5), part="inside", centre=states.mean(dim=0))
    assert torch.allclose(centred(centred(states)), centred(states), atol=1e-5)


def test_a_basis_that_spans_everything_costs_nothing_under_both_protocols() -> None:
    found = measure_projections(split(), held(), basis(HIDDEN), layer=0, centre=None, seed=0)
    for protocol in ("injection", "readout"):
        for name in ("given", "random"):
            assert found.entry(protocol, "inside", name).kl_nats.mean < 1e-6
            assert found.entry(protocol, "inside", name).agreement.mean == 1.0
            assert found.entry(protocol, "outside", name).kl_nats.mean > 1e-3
    assert len(found.entries) == 8 and found.rank == found.hidden == HIDDEN


def test_injection_runs_the_tail_and_readout_does_not() -> None:
    decoder, prompts, columns = split(), held(), basis(16)
    found = measure_projections(decoder, prompts, columns, layer=0, centre=None, seed=0)
    states = prompts.states(0)
    cut = Projector(basis=columns, part="inside", centre=None)(states)
    kl = {"injection": 0.0, "readout": 0.0}
    for kept, rows in zip(prompts.batches, prompts.rows, strict=True):
        index = list(rows)
        with torch.no_grad():
            pairs = {
                "injection": (kept.logits, decoder.tail(cut[index], kept, layer=0)),
                "readout": (decoder.early_exit(states[index]), decoder.early_exit(cut[index])),
            }
        for name, (clean, other) in pairs.items():
            log_p, log_q = clean.double().log_softmax(1), other.double().log_softmax(1)
            kl[name] += float((log_p.exp() * (log_p - log_q)).sum()) / prompts.n_prompts
    for name, value in kl.items():
        assert found.entry(name, "inside").kl_nats.mean == pytest.approx(value, rel=1e-6)


def test_centring_is_the_callers_choice_and_is_told() -> None:
    prompts = held()
    mean = prompts.states(0).mean(dim=0)
    plain = measure_projections(split(), prompts, basis(8), layer=0, centre=None, seed=0)
    centred = measure_projections(split(), prompts, basis(8), layer=0, centre=mean, seed=0)
    assert (plain.centred, centred.centred) == (False, True)
    cost = plain.entry("injection", "inside").kl_nats.mean
    assert centred.entry("injection", "inside").kl_nats.mean != pytest.approx(cost, rel=0.01)
    assert decode(ProjectionResult, encode(plain)) == plain
    with pytest.raises(KeyError):
        plain.entry("injection", "inside", "other")


def test_a_transplant_of_everything_leaves_nothing_of_the_own_state() -> None:
    whole = measure_transplants(split(), held(), basis(HIDDEN), layer=1, seed=0)
    everything, nothing = whole.entries
    assert everything.part == "inside" and nothing.part == "outside"
    # layer 1 is the last: its state alone decides the prediction
    assert everything.kl_from_donor_nats.mean < 1e-6
    assert everything.agreement_with_donor.mean == 1.0
    assert everything.kl_from_own_nats.mean > 1e-3
    assert nothing.kl_from_own_nats.mean < 1e-6
    assert nothing.kl_from_donor_nats.mean == pytest.approx(
        everything.kl_from_own_nats.mean, rel=1.0
    )


def test_a_transplant_at_an_early_layer_keeps_the_own_positions() -> None:
    early = measure_transplants(split(), held(), basis(HIDDEN), layer=0, seed=0).entries[0]
    assert early.kl_from_donor_nats.mean > 1e-6


def test_columns_that_are_not_orthonormal_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="orthonormal columns"):
        Projector(basis=2 * basis(3), part="inside", centre=None)

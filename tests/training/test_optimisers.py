"""Optimisers: torch's own as the oracle, one contract for all, the noise correction by its aim."""

import math

import pytest
import torch
from torch import Tensor, nn

from insular.errors import InvalidArgumentError, TrainingError
from insular.training.optimisers import OPTIMISERS, DpAdamW, DpSgd, Optimiser

SHAPES = {"a": (3, 5), "b": (7,), "c": (2, 2, 2)}
N_PARAMS = sum(math.prod(shape) for shape in SHAPES.values())

TABLE = {
    "sgd": lambda p: DpSgd(p),
    "sgd, momentum": lambda p: DpSgd(p, momentum=0.9),
    "adamw": lambda p: DpAdamW(p, noise_std=0.3, divisor=16.0, weight_decay=0.1),
    "adamw, no noise": lambda p: DpAdamW(p, noise_std=0.0, divisor=16.0),
}
"""Every optimiser that there is must be here."""

every = pytest.mark.parametrize("make", TABLE.values(), ids=TABLE)


def parameters(dtype: torch.dtype = torch.float32) -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return {
        name: nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
        for name, shape in SHAPES.items()
    }


def gradients(n_steps: int, seed: int = 1) -> list[Tensor]:
    return list(torch.randn(n_steps, N_PARAMS, generator=torch.Generator().manual_seed(seed)))


def flat(tensors: dict[str, nn.Parameter]) -> Tensor:
    return torch.cat([p.detach().flatten() for p in tensors.values()])


def run(optimiser: Optimiser, steps: list[Tensor], rate: float = 0.01) -> None:
    for gradient in steps:
        optimiser.step(gradient, learning_rate=rate)


def run_torch(
    optimiser: torch.optim.Optimizer, held: dict[str, nn.Parameter], steps: list[Tensor]
) -> None:
    for gradient in steps:
        for p, part in zip(
            held.values(), gradient.split([p.numel() for p in held.values()]), strict=True
        ):
            p.grad = part.view_as(p).clone()
        optimiser.step()


def test_the_table_has_every_optimiser() -> None:
    assert {type(make(parameters())) for make in TABLE.values()} == set(OPTIMISERS.values())
    assert set(OPTIMISERS) == {"dp-sgd", "dp-adamw"}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_equals_torch(momentum: float) -> None:
    ours, theirs = parameters(), parameters()
    run(DpSgd(ours, momentum=momentum), gradients(20))
    oracle = torch.optim.SGD(theirs.values(), lr=0.01, momentum=momentum)
    run_torch(oracle, theirs, gradients(20))
    torch.testing.assert_close(flat(ours), flat(theirs), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_adamw_without_noise_equals_torch(weight_decay: float) -> None:
    ours, theirs = parameters(), parameters()
    run(DpAdamW(ours, noise_std=0.0, divisor=1.0, weight_decay=weight_decay), gradients(50))
    oracle = torch.optim.AdamW(theirs.values(), lr=0.01, weight_decay=weight_decay)
    run_torch(oracle, theirs, gradients(50))
    torch.testing.assert_close(flat(ours), flat(theirs), rtol=1e-5, atol=1e-6)


def test_adamw_worked_example() -> None:
    # One step: m / (1 - b1) = g = 0.5 and v / (1 - b2) = 0.25; noise variance (2 / 5)^2 = 0.16.
    held = {"w": nn.Parameter(torch.tensor([1.0]))}
    optimiser = DpAdamW(held, noise_std=2.0, divisor=5.0, stabiliser=0.0, weight_decay=0.5)
    optimiser.step(torch.tensor([0.5]), learning_rate=0.1)
    assert held["w"].item() == pytest.approx(1 - 0.1 * 0.5 - 0.1 * 0.5 / math.sqrt(0.25 - 0.16))


def test_the_correction_gives_the_step_of_the_gradient_without_noise() -> None:
    # Constant gradients of half the noise: Adam without noise moves each by the rate, every step.
    n, rate, noise = 4_000, 0.01, 0.2
    signal = torch.full((n,), 0.5 * noise)
    generator = torch.Generator().manual_seed(0)
    moved = {}
    for name, known in {"corrected": noise, "as it is": 0.0}.items():
        held = {"w": nn.Parameter(torch.zeros(n))}
        optimiser = DpAdamW(held, noise_std=known, divisor=1.0, floor_share=0.05)
        for _ in range(400):
            drawn = torch.randn(n, generator=generator) * noise
            optimiser.step(signal + drawn, learning_rate=rate)
        moved[name] = -held["w"].mean().item() / (400 * rate)
    assert moved["corrected"] == pytest.approx(1.0, abs=0.12)
    assert moved["as it is"] == pytest.approx(0.5 / math.sqrt(1.25), abs=0.02)


def test_the_floor_bounds_every_move() -> None:
    held = {"w": nn.Parameter(torch.zeros(1000))}
    optimiser = DpAdamW(held, noise_std=0.2, divisor=2.0, floor_share=0.25)
    gradient = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 0.1
    optimiser.step(gradient, learning_rate=1.0)
    assert bool((held["w"].abs() <= gradient.abs() / (0.5 * 0.1) * (1 + 1e-5)).all())


@every
def test_the_state_round_trips_bit_for_bit(make) -> None:
    one, whole = parameters(), parameters()
    first, unbroken = make(one), make(whole)
    run(first, gradients(5))
    two = {name: nn.Parameter(p.detach().clone()) for name, p in one.items()}
    second = make(two)
    second.load(first.state())
    later = gradients(5, seed=2)
    run(second, later)
    run(unbroken, gradients(5) + later)
    assert torch.equal(flat(two), flat(whole))
    assert {k: v.tolist() for k, v in second.state().items()} == {
        k: v.tolist() for k, v in unbroken.state().items()
    }


@every
def test_equal_inputs_give_equal_parameters(make) -> None:
    one, two = parameters(), parameters()
    run(make(one), gradients(10))
    run(make(two), gradients(10))
    assert torch.equal(flat(one), flat(two))


@every
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1e12])
def test_parameters_stay_finite(make, scale: float) -> None:
    held = parameters()
    run(make(held), [g * scale for g in gradients(10)])
    assert bool(flat(held).isfinite().all())


@every
def test_the_gradient_is_left_as_it_was(make) -> None:
    gradient = gradients(1)[0]
    before = gradient.clone()
    make(parameters()).step(gradient, learning_rate=0.1)
    assert torch.equal(gradient, before)


@every
def test_a_state_is_a_copy(make) -> None:
    optimiser = make(parameters())
    run(optimiser, gradients(2))
    state = optimiser.state()
    kept = {name: tensor.clone() for name, tensor in state.items()}
    optimiser.load(state)
    run(optimiser, gradients(2))
    assert all(torch.equal(state[name], kept[name]) for name in state)


@every
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_gradient_that_is_not_finite_is_refused_before_anything_changes(make, bad) -> None:
    held = parameters()
    optimiser = make(held)
    before, state = flat(held), optimiser.state()
    gradient = gradients(1)[0]
    gradient[3] = bad
    with pytest.raises(InvalidArgumentError, match="gradient must be finite, got NaN or infinity"):
        optimiser.step(gradient, learning_rate=0.1)
    assert torch.equal(flat(held), before)
    assert all(torch.equal(state[k], v) for k, v in optimiser.state().items())


@every
def test_bad_arguments(make) -> None:
    optimiser = make(parameters())
    with pytest.raises(InvalidArgumentError, match=f"each of {N_PARAMS} trainable .* got 4"):
        optimiser.step(torch.zeros(4), learning_rate=0.1)
    with pytest.raises(InvalidArgumentError, match="learning_rate must be finite and >= 0"):
        optimiser.step(gradients(1)[0], learning_rate=math.nan)
    with pytest.raises(InvalidArgumentError, match="at least one tensor"):
        make({})
    with pytest.raises(TrainingError, match=r"must be one of dp-\w+ over 30 coordinates"):
        optimiser.load({"other": torch.zeros(3)})


def test_bad_settings() -> None:
    with pytest.raises(InvalidArgumentError, match=r"momentum must be from 0, below 1"):
        DpSgd(parameters(), momentum=1.0)
    with pytest.raises(InvalidArgumentError, match="beta2 must be from 0"):
        DpAdamW(parameters(), noise_std=1.0, divisor=1.0, betas=(0.9, 1.0))
    with pytest.raises(InvalidArgumentError, match="divisor must be finite and > 0"):
        DpAdamW(parameters(), noise_std=1.0, divisor=0.0)


def test_low_precision_parameters_keep_a_float32_state() -> None:
    optimiser = DpAdamW(parameters(torch.bfloat16), noise_std=0.1, divisor=4.0)
    run(optimiser, gradients(2))
    assert optimiser.state()["mean"].dtype == torch.float32

"""Liveness: dead tensors are found before budget is spent, moved ones are told bit by bit."""

import warnings
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from insular.errors import InvalidArgumentError, TrainingError
from insular.evidence import decode, encode
from insular.training.liveness import LivenessState, LivenessWatch, digest_tensor

ALIVE = torch.ones(6)
FIRST_ONLY = torch.tensor([1.0, 1, 0, 0, 0, 0])


def tensors() -> dict[str, nn.Parameter]:
    return {
        "q.lora_B.default.weight": nn.Parameter(torch.zeros(2)),
        "q.lora_A.default.weight": nn.Parameter(torch.ones(2, 2)),
    }


def saved(held: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    return {name: p.detach().clone() for name, p in held.items()}


def move(held: dict[str, nn.Parameter]) -> None:
    with torch.no_grad():
        for p in held.values():
            p += 1.0


def test_a_live_run() -> None:
    held = tensors()
    watch = LivenessWatch(held)
    for _ in range(5):
        watch.saw(ALIVE, n_units=4)
        move(held)
    found = watch.finish(saved(held))
    assert found.alive and found.n_tensors == 2


def test_a_zero_b_is_no_alarm() -> None:
    watch = LivenessWatch(tensors())
    watch.saw(FIRST_ONLY, n_units=4)  # A's gradient is a product with B, which is 0
    for _ in range(5):
        watch.saw(ALIVE, n_units=4)


def test_a_tensor_that_no_record_reaches_is_an_error_after_the_patience() -> None:
    watch = LivenessWatch(tensors())
    watch.saw(FIRST_ONLY, n_units=4)
    watch.saw(FIRST_ONLY, n_units=1)
    with pytest.raises(TrainingError) as caught:
        watch.saw(FIRST_ONLY, n_units=4)
    text = str(caught.value)
    assert text.startswith(
        "1 of 2 trainable tensors had no gradient from any record in 3 steps: "
        "q.lora_A.default.weight. Training would spend budget on noise alone"
    )
    assert "\n" not in text and "NF4" in text


def test_an_empty_draw_counts_as_nothing() -> None:
    watch = LivenessWatch(tensors())
    for _ in range(10):
        watch.saw(torch.zeros(6), n_units=0)
    assert watch.state().n_steps == 0
    watch.saw(ALIVE, n_units=1)


def test_a_gradient_once_is_enough() -> None:
    watch = LivenessWatch(tensors())
    watch.saw(ALIVE, n_units=4)
    for _ in range(5):
        watch.saw(torch.zeros(6), n_units=4)


def test_what_did_not_move_is_told() -> None:
    held = tensors()
    watch = LivenessWatch(held)
    watch.saw(FIRST_ONLY, n_units=4)
    with torch.no_grad():
        held["q.lora_B.default.weight"] += 1.0
    found = watch.finish(saved(held))
    assert found.unmoved == found.without_gradient == ("q.lora_A.default.weight",)
    assert not found.alive and found.saved_differs == ()


def test_what_was_saved_is_compared_bit_for_bit_under_either_name() -> None:
    held = tensors()
    watch = LivenessWatch(held)
    watch.saw(ALIVE, n_units=4)
    move(held)
    files = {name.replace(".default.", "."): t for name, t in saved(held).items()}
    assert watch.finish(files).alive
    files["q.lora_A.weight"][1, 1] = torch.nextafter(torch.tensor(2.0), torch.tensor(3.0))
    assert watch.finish(files).saved_differs == ("q.lora_A.default.weight",)
    assert watch.finish({}).saved_differs == tuple(held)


def test_a_tensor_that_was_saved_in_another_dtype_differs() -> None:
    held = tensors()
    watch = LivenessWatch(held)
    files = {name: t.bfloat16() for name, t in saved(held).items()}
    assert watch.finish(files).saved_differs == tuple(held)


def test_a_watch_goes_on_from_its_state() -> None:
    held = tensors()
    watch = LivenessWatch(held)
    watch.saw(FIRST_ONLY, n_units=4)
    watch.saw(FIRST_ONLY, n_units=4)
    move(held)
    state = decode(LivenessState, encode(watch.state()))
    again = LivenessWatch(held)
    again.load(state)
    assert again.state() == state and again.finish(saved(held)).unmoved == ()
    with pytest.raises(TrainingError, match="in 3 steps"):
        again.saw(FIRST_ONLY, n_units=4)
    with pytest.raises(TrainingError, match="liveness state is of other tensors"):
        again.load(replace(state, starting_sha256={"other": ""}))


def test_bad_arguments() -> None:
    watch = LivenessWatch(tensors())
    with pytest.raises(InvalidArgumentError, match="clipped_sum must have 6 coordinates, got 5"):
        watch.saw(torch.zeros(5), n_units=1)
    with pytest.raises(InvalidArgumentError, match="n_units must be an integer >= 0"):
        watch.saw(ALIVE, n_units=-1)
    with pytest.raises(InvalidArgumentError, match="at least one tensor"):
        LivenessWatch({})


def test_digests_tell_bits_dtype_and_shape_apart() -> None:
    ones = torch.ones(2, 3)
    assert digest_tensor(ones) == digest_tensor(torch.ones(3, 2).T)
    others = [ones.flatten(), ones.double(), ones.bfloat16(), -ones, torch.zeros(2, 3), -0 * ones]
    assert len({digest_tensor(t) for t in [ones, *others, torch.tensor(1.0)]}) >= 7


class _Adapted(nn.Module):
    """A frozen 4-bit layer below a trainable one, as an adapter's input lies below others."""

    def __init__(self) -> None:
        super().__init__()
        bnb = pytest.importorskip("bitsandbytes")
        torch.manual_seed(0)
        self.below = nn.Linear(64, 64, bias=False)
        self.frozen = bnb.nn.Linear4bit(
            64, 64, bias=False, compute_dtype=torch.float32, quant_type="nf4"
        )
        self.frozen.requires_grad_(False)
        self.above = nn.Linear(64, 64, bias=False)
        self.to("cpu")

    def forward(self, x: Tensor) -> Tensor:
        return self.above(self.frozen(self.below(x)))


def test_a_4_bit_layer_that_an_evaluation_repacked_is_caught() -> None:
    model = _Adapted()
    held = dict(model.named_parameters())
    held = {name: p for name, p in held.items() if p.requires_grad}
    inputs = torch.randn(16, 64)

    def clipped_sum() -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that an operator has no autograd kernel
            found = torch.autograd.grad(
                model(inputs).square().sum(), list(held.values()), allow_unused=True
            )
        return torch.cat(
            [
                (torch.zeros_like(p) if g is None else g).flatten()
                for p, g in zip(held.values(), found, strict=True)
            ]
        )

    model.train()
    watch = LivenessWatch(held)
    for _ in range(4):  # the clean control
        watch.saw(clipped_sum(), n_units=16)
    model.eval()
    with torch.no_grad():
        model(inputs)
    model.train()
    if bool(clipped_sum()[: 64 * 64].any()):
        pytest.skip("this bitsandbytes keeps the gradient after an evaluation")
    watch = LivenessWatch(held)
    watch.saw(clipped_sum(), n_units=16)
    watch.saw(clipped_sum(), n_units=16)
    with pytest.raises(TrainingError, match=r"1 of 2 trainable tensors .* below\.weight"):
        watch.saw(clipped_sum(), n_units=16)

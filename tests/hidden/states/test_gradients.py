"""Gradients of the state: against autograd on the full model, and the Fisher they estimate."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hidden.decoder_samples import held, records, split
from insular.errors import InvalidArgumentError, ModelError
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.gradients import hidden_gradients, limit_norms, sampled_labels
from insular.hidden.states.prompts import hold_prompts
from models.families import FAMILIES, HIDDEN, VOCABULARY, tiny


def by_autograd(decoder: SplitDecoder, tokens: tuple[int, ...], label: int, layer: int) -> Tensor:
    """The oracle: one record, the whole model, a hook that makes the last state a leaf."""
    leaf: list[Tensor] = []

    def hook(_: nn.Module, __: object, output: Tensor) -> Tensor:
        leaf.append(output[:, -1].detach().clone().requires_grad_())
        return torch.cat([output[:, :-1].detach(), leaf[0][:, None]], dim=1)

    handle = decoder._blocks[layer].register_forward_hook(hook)
    logits = decoder.model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
    handle.remove()
    (found,) = torch.autograd.grad(torch.log_softmax(logits, dim=0)[label], leaf[0])
    return found[0]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layer", [0, 1])
def test_every_row_is_what_one_backward_per_record_gives(family: str, layer: int) -> None:
    decoder = split(family)
    rows = records()
    prompts = hold_prompts(decoder, rows, layers=[0, 1], labels="last_token", batch_tokens=30)
    found = hidden_gradients(decoder, prompts, layer=layer, kind="empirical")
    assert found.rows.shape == (len(rows), HIDDEN)
    for row, one in zip(found.rows, rows, strict=True):
        expected = by_autograd(decoder, one.tokens[:-1], one.tokens[-1], layer)
        assert (row - expected).norm() <= 1e-4 * expected.norm()
    assert found.summary.kind == "empirical" and found.summary.seed is None


def test_each_sampled_label_has_its_own_gradient() -> None:
    decoder, prompts = split("llama"), held(6)
    found = hidden_gradients(decoder, prompts, layer=0, kind="true", labels_per_prompt=3, seed=5)
    tokens = [one.tokens[:-1] for one in records(tuple(4 + i % 7 for i in range(6)))]
    for row in range(6):
        for column in range(3):
            label = int(found.labels[row, column])
            expected = by_autograd(decoder, tokens[row], label, 0)
            got = found.by_prompt[row, column]
            assert (got - expected).norm() <= 1e-4 * expected.norm()
    assert torch.equal(found.rows[4], found.by_prompt[1, 1])


def test_no_parameters_gradient_is_written() -> None:
    decoder = SplitDecoder(tiny("llama"))
    prompts = hold_prompts(decoder, records(), layers=[0], labels="none")
    hidden_gradients(decoder, prompts, layer=0, kind="true", seed=0)
    assert all(parameter.grad is None for parameter in decoder.model.parameters())


def test_the_true_fishers_gradients_have_mean_zero_and_the_exact_covariance() -> None:
    """Sum over all labels by hand against 1,000 draws; 5 standard errors, false alarm < 1e-5."""
    decoder = split("llama")
    prompts = hold_prompts(decoder, records((6,)), layers=[0], labels="none")
    p = torch.softmax(prompts.logits()[0].double(), dim=0)
    every = torch.stack(
        [by_autograd(decoder, records((6,))[0].tokens, label, 0) for label in range(VOCABULARY)]
    ).double()
    assert (p @ every).abs().max() < 1e-5
    exact = float((p * every.square().sum(dim=1)).sum())
    drawn = hidden_gradients(decoder, prompts, layer=0, kind="true", labels_per_prompt=1000, seed=1)
    squared = drawn.rows.double().square().sum(dim=1)
    assert abs(float(squared.mean()) - exact) < 5 * float(squared.std()) / 1000**0.5
    assert drawn.summary.trace == pytest.approx(float(squared.mean()))


def test_the_fisher_predicts_the_kl_of_a_small_shift() -> None:
    """KL = x'Fx/2 with F summed over all labels of one prompt."""
    decoder = split("gpt2")
    prompts = hold_prompts(decoder, records((6,)), layers=[0], labels="none")
    p = torch.softmax(prompts.logits()[0].double(), dim=0)
    every = torch.stack(
        [by_autograd(decoder, records((6,))[0].tokens, label, 0) for label in range(VOCABULARY)]
    ).double()
    shift = 0.02 * torch.randn(HIDDEN, generator=torch.Generator().manual_seed(3))
    expected = float((p * (every @ shift.double()).square()).sum()) / 2
    with torch.no_grad():
        moved = decoder.tail(prompts.states(0) + shift, prompts.batches[0], layer=0)[0]
    log_q = torch.log_softmax(moved.double(), dim=0)
    assert float((p * (p.log() - log_q)).sum()) == pytest.approx(expected, rel=0.05)


def test_labels_depend_on_seed_prompts_and_draws_alone() -> None:
    one = sampled_labels(held(12), labels_per_prompt=4, seed=3)
    again = sampled_labels(
        hold_prompts(
            split(),
            records(tuple(4 + i % 7 for i in range(12))),
            layers=[1],
            labels="last_token",
            batch_tokens=1000,
        ),
        labels_per_prompt=4,
        seed=3,
    )
    assert torch.equal(one, again)
    assert not torch.equal(one, sampled_labels(held(12), labels_per_prompt=4, seed=4))


def test_labels_follow_the_models_distribution() -> None:
    """64 frequencies of 20,000 draws, each within 5 standard errors: false alarm < 4e-5."""
    prompts = hold_prompts(split(), records((5,)), layers=[0], labels="none")
    p = torch.softmax(prompts.logits()[0].double(), dim=0).numpy()
    labels = sampled_labels(prompts, labels_per_prompt=20_000, seed=0)
    shares = np.bincount(labels[0].numpy(), minlength=VOCABULARY) / 20_000
    assert (np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / 20_000)).all()


def test_outlier_rules_by_hand() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.6, 0.8], [0.0, 0.0]])
    same, bound = limit_norms(rows, "none")
    assert torch.equal(same, rows) and bound is None
    unit, bound = limit_norms(rows, "unit")
    assert (
        torch.allclose(unit, torch.tensor([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]])) and bound is None
    )
    clipped, bound = limit_norms(rows, "clip", clip_quantile=0.5)
    assert bound == pytest.approx(1.0)
    assert torch.allclose(clipped, torch.tensor([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]))


def test_the_summary_is_taken_before_the_rule() -> None:
    plain = hidden_gradients(split(), held(), layer=0, kind="true", seed=0)
    unit = hidden_gradients(split(), held(), layer=0, kind="true", seed=0, rule="unit")
    assert unit.summary.trace == plain.summary.trace
    assert torch.allclose(unit.rows.norm(dim=1), torch.ones(24))
    squared = plain.rows.square().sum(dim=1)
    assert plain.summary.top_percent_share == pytest.approx(
        float(squared.max() / squared.sum()), rel=1e-5
    )


def test_options_that_do_not_fit_the_kind_are_refused() -> None:
    decoder = split()
    with pytest.raises(InvalidArgumentError, match="seed must be given"):
        hidden_gradients(decoder, held(), layer=0, kind="true")
    with pytest.raises(InvalidArgumentError, match="one label per prompt and no seed"):
        hidden_gradients(decoder, held(), layer=0, kind="empirical", labels_per_prompt=2)
    with pytest.raises(InvalidArgumentError, match="must hold data labels"):
        hidden_gradients(decoder, held(labels="none"), layer=0, kind="empirical")


def test_a_head_that_is_no_plain_linear_layer_is_refused() -> None:
    class Head(nn.Linear):
        pass

    model = tiny("llama")
    head = Head(HIDDEN, VOCABULARY, bias=False)
    head.weight = model.lm_head.weight  # type: ignore[union-attr]
    model.lm_head = head
    decoder = SplitDecoder(model)
    prompts = hold_prompts(decoder, records(), layers=[0], labels="none")
    with pytest.raises(ModelError, match="output head must be a plain linear layer"):
        hidden_gradients(decoder, prompts, layer=0, kind="true", seed=0)

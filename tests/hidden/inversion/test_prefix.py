"""Hypotheses with shared prefixes against whole forwards."""

import pytest
import torch

from hidden.inversion.samples import random_records, split, trajectory
from insular.hidden.inversion.prefix import PrefixRunner
from models.families import FAMILIES


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "gemma"])
def test_a_continued_hypothesis_has_the_state_of_one_forward(family: str) -> None:
    runner = PrefixRunner(split(family), layer=1)
    one, two = random_records(2, 7, seed=1)
    prefixes = runner.empty()
    pairs = torch.tensor([one.tokens, two.tokens])
    parents = torch.zeros(2, dtype=torch.long)
    for position in range(7):
        found = runner.continued(prefixes, parents, pairs[:, position])
        prefixes = runner.chosen(prefixes, found, torch.tensor([0, 1]))
        parents = torch.tensor([0, 1])
        for row, record in enumerate((one, two)):
            expected = trajectory(record, family=family)[position]
            assert torch.allclose(found.states[row], expected, atol=1e-5)
    assert torch.equal(prefixes.tokens, pairs)


def test_the_prior_is_the_models_own_and_may_lag_behind() -> None:
    runner = PrefixRunner(split(), layer=0)
    record = random_records(1, 8, seed=1)[0]
    tokens = torch.tensor([record.tokens])
    assert runner.prior(runner.empty())[1] is None
    prefixes = runner.start(tokens[:, :3])
    prefixes, _ = runner.prior(prefixes)
    for position in range(3, 8):
        found = runner.continued(prefixes, torch.tensor([0]), tokens[:, position])
        prefixes = runner.chosen(prefixes, found, torch.tensor([0]))
    _, prior = runner.prior(prefixes)
    with torch.no_grad():
        expected = split().model(tokens).logits[0, -1].log_softmax(0)
    assert prior is not None
    assert torch.allclose(prior[0], expected, atol=1e-4)

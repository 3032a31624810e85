"""Shielded records compute as if the others were not there; the others as in the whole batch."""

import pytest
import torch

from insular.errors import InvalidArgumentError
from insular.precision.outliers import BatchedOutliers, OutlierRule
from insular.precision.prescribed import ShieldedOutliers
from insular.precision.product import int8_product, quantise_weight

from .samples import announced

TOKENS, HIDDEN, OUT, THRESHOLD = 4, 32, 16, 6.0
WEIGHT = quantise_weight(torch.randn(OUT, HIDDEN, generator=torch.Generator().manual_seed(1)))


def batch(seed: int, n_records: int) -> torch.Tensor:
    """Every record has an outlier in a column of its own."""
    values = torch.randn(n_records, TOKENS, HIDDEN, generator=torch.Generator().manual_seed(seed))
    for record in range(n_records):
        values[record, record % TOKENS, 3 * record] = 7.0 + record
    return values


def product(values: torch.Tensor, rule: OutlierRule) -> torch.Tensor:
    mask = torch.ones(values.shape[:2], dtype=torch.bool)
    mask[0, -1] = False  # padding belongs to its record's group
    return int8_product(values, WEIGHT, None, rule=rule, ownership=announced(mask))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_shielded", [1, 3, 5])
def test_the_first_records_compute_what_llm_int8_computes_of_them_alone(
    seed: int, n_shielded: int
) -> None:
    values = batch(seed, 6)
    found = product(values, ShieldedOutliers(THRESHOLD, n_shielded=n_shielded))
    alone = product(values[:n_shielded], BatchedOutliers(THRESHOLD))
    assert torch.equal(found[:n_shielded], alone)
    assert not torch.equal(alone, product(values, BatchedOutliers(THRESHOLD))[:n_shielded])


@pytest.mark.parametrize("seed", range(5))
def test_the_other_records_compute_what_llm_int8_computes_of_the_whole_batch(seed: int) -> None:
    values = batch(seed, 6)
    whole = product(values, BatchedOutliers(THRESHOLD))
    found = product(values, ShieldedOutliers(THRESHOLD, n_shielded=4))
    assert torch.allclose(found[4:], whole[4:], rtol=1e-6, atol=1e-5)


def test_a_batch_of_shielded_records_alone_is_the_batched_rule() -> None:
    values = batch(0, 3)
    assert torch.equal(
        product(values, ShieldedOutliers(THRESHOLD, n_shielded=3)),
        product(values, BatchedOutliers(THRESHOLD)),
    )


def test_a_batch_without_outliers_has_no_products() -> None:
    values = torch.full((2, TOKENS, HIDDEN), 0.5)
    rule = ShieldedOutliers(THRESHOLD, n_shielded=1)
    flat = values.flatten(0, 1)
    mask = torch.ones(2, TOKENS, dtype=torch.bool)
    assert rule.split(flat, flat.amax(dim=1), announced(mask)).products == ()


def test_nobody_shielded_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="n_shielded must be an integer >= 1"):
        ShieldedOutliers(THRESHOLD, n_shielded=0)

"""The certificate: clean on tiny decoders, and a planted coupling is caught."""

import pytest
import torch
from torch import Tensor, nn

from hidden.decoder_samples import records, repeated, split
from insular.errors import InvalidArgumentError
from insular.evidence import decode, encode
from insular.hidden.states.forward import SplitDecoder
from insular.hidden.states.numerics import certify_numerics
from insular.hidden.states.numerics_results import NumericsResult
from models.families import tiny

EXACT_WAYS = ("batched", "batched_left", "padded", "padded_left", "incremental")


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_a_clean_decoder_moves_by_rounding_alone(family: str) -> None:
    found = certify_numerics(split(family), records(), layers=[0, 1])
    for layer in (0, 1):
        assert found.shift("repeat", layer).max_abs == 0.0
        assert found.shift("repeat", layer).n_bitwise_equal == len(records())
        for way in EXACT_WAYS:
            assert found.shift(way, layer).max_relative < 1e-5  # type: ignore[arg-type]
            assert found.separates(way, layer)  # type: ignore[arg-type]
        assert 1e-4 < found.shift("bfloat16", layer).max_relative < 0.1
    assert found.tail_max_abs_logit < 1e-5
    assert found.dtype == "float32" and found.attention == "eager"
    assert decode(NumericsResult, encode(found)) == found


def test_the_decoder_is_unchanged() -> None:
    before = {name: p.clone() for name, p in split().model.named_parameters()}
    certify_numerics(split(), records((3, 5)), layers=[0])
    assert all(torch.equal(p, before[name]) for name, p in split().model.named_parameters())


class ReadsOthers(nn.Module):
    """A planted bug: adds the mean over the batch to every record."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor) -> Tensor:
        found = self.inner(hidden)
        return found + found.mean(dim=(0, 1), keepdim=True)


def test_a_part_that_reads_other_records_and_padding_is_caught() -> None:
    model = tiny("llama")
    decoder = SplitDecoder(model)  # clean here; its own check would refuse the bug
    layer = model.model.layers[0]  # type: ignore[union-attr,index]
    layer.mlp = ReadsOthers(layer.mlp)
    found = certify_numerics(decoder, records(), layers=[0], bfloat16=False)
    assert found.shift("repeat", 0).max_abs == 0.0
    assert found.shift("batched", 0).max_relative > 1e-3
    assert found.shift("padded", 0).max_relative > 1e-3


def test_two_distinct_records_are_needed() -> None:
    one = records((5,))
    with pytest.raises(InvalidArgumentError, match="at least 2 distinct"):
        certify_numerics(split(), [*one, repeated(one[0], "copy")], layers=[0])

"""The frozen layer of the constructed witnesses, under every arithmetic that they compare."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

import torch
from torch import Tensor, nn

from insular.precision.linear import Int8Linear, llm_int8_linear, nf4_linear
from insular.precision.outliers import (
    BatchedOutliers,
    CalibratedOutliers,
    NoOutliers,
    OutlierRule,
    RecordOutliers,
    TokenOutliers,
)
from insular.precision.ownership import RowOwnership

THRESHOLD = 6.0
"""Outlier threshold of every arm that has one, in activation units."""
WEIGHT = ((1.0, 0.0, 0.0, 0.0),)
"""The frozen weight, padded to four columns: narrower products fall back to floating point."""


@final
@dataclass(frozen=True, kw_only=True)
class Arm:
    """One arithmetic of the frozen layer."""

    name: str
    """Its name in the result."""
    build: Callable[[Tensor], nn.Linear]
    """Makes the layer from its float weight."""
    coupled: bool = False
    """Whether one record's outlier changes another's product, on the device asked for."""
    isolated: bool = False
    """Whether each record runs in a forward of its own."""
    dtype: torch.dtype = torch.float16
    """Element type of the activations."""
    mode: Literal["train", "eval"] = "eval"
    """Mode of the layer."""


def witness_arms(device: torch.device) -> tuple[Arm, ...]:
    """The stock layer, its published controls, and insular's product under every rule.

    On CUDA the stock layer forms the union of outlier columns in any mode; on CPU in evaluation
    mode alone, which makes its training mode a control there.

    Args:
        device: Where the arms will run.

    Returns:
        The arms; the stock layer in evaluation mode comes first.
    """
    stock = "bitsandbytes int8"
    return (
        Arm(name=stock, build=_stock, coupled=True),
        Arm(
            name=f"{stock}, training mode",
            build=lambda weight: _stock(weight).train(),
            coupled=device.type == "cuda",
            mode="train",
        ),
        Arm(name=f"{stock}, one record a forward", build=_stock, isolated=True),
        Arm(name=f"{stock}, threshold 0", build=lambda w: llm_int8_linear(w, None, threshold=0.0)),
        Arm(name="bfloat16", build=_bfloat16, dtype=torch.bfloat16),
        Arm(name="bitsandbytes nf4", build=lambda w: nf4_linear(w, None), mode="train"),
        *(_insular(rule, device) for rule in ("batched", "record", "token", "calibrated", "none")),
    )


def _stock(weight: Tensor) -> nn.Linear:
    """The stock LLM.int8 layer."""
    return llm_int8_linear(weight, None, threshold=THRESHOLD)


def _bfloat16(weight: Tensor) -> nn.Linear:
    """A plain frozen layer."""
    out_features, in_features = weight.shape
    layer = nn.Linear(in_features, out_features, bias=False, device=weight.device)
    layer.weight = nn.Parameter(weight.to(torch.bfloat16), requires_grad=False)
    return layer.eval()


def _insular(name: str, device: torch.device) -> Arm:
    """One of our own int8 rules."""
    rules: dict[str, OutlierRule] = {
        "batched": BatchedOutliers(THRESHOLD),
        "record": RecordOutliers(THRESHOLD),
        "token": TokenOutliers(THRESHOLD),
        "calibrated": CalibratedOutliers(torch.tensor([0], device=device)),
        "none": NoOutliers(),
    }

    def build(weight: Tensor) -> nn.Linear:
        return Int8Linear(weight, None, rule=rules[name], ownership=RowOwnership()).eval()

    return Arm(name=f"insular int8, {name} rule", build=build, coupled=name == "batched")


def announce_rows(layer: nn.Linear, n_records: int, device: torch.device) -> None:
    """Tell a layer of insular that each of the next rows is a record.

    Args:
        layer: Any arm's layer.
        n_records: Rows to come.
        device: Where they are.
    """
    if isinstance(layer, Int8Linear):
        layer.ownership.announce(torch.ones(n_records, 1, dtype=torch.bool, device=device))

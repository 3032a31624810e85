"""Values x masks at one layer: which of the two carries the change of the logits."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from insular.audit.localisation.intervention_results import Batch, FactorialCell
from insular.audit.subjects.subject import Evaluation
from insular.errors import InvalidArgumentError
from insular.precision.layers import int8_layers
from insular.precision.observation import ObservedOutliers
from insular.precision.prescribed import PrescribedOutliers, PrescribedSet

if TYPE_CHECKING:
    from insular.audit.localisation.interventions import Pair


def run_factorial(
    pair: "Pair",
    layer: str,
    base: Evaluation,
    before: Mapping[str, ObservedOutliers],
    after: Mapping[str, ObservedOutliers],
    *,
    progress: Callable[[str], None],
) -> tuple[FactorialCell, ...]:
    """Run D four times, one layer with the values and the mask of either batch.

    Every other layer computes as it does, on whatever reaches it.

    Guarantees:
        * A mask that omits an outlier of the values is rejected, and kept with the reason.

    Args:
        pair: The pair.
        layer: Plain name of the layer.
        base: D as it is.
        before: Observations of D, with inputs.
        after: Observations of D', with inputs.
        progress: Called with a short line before each cell.

    Returns:
        Four cells; none where the subject shows no logits.

    Source:
        Zhang et al. (2026), section 6.4. https://arxiv.org/abs/2611.01411
    """
    if base.logits is None or base.mask is None:
        return ()
    inputs: dict[Batch, Tensor | None] = {"D": before[layer].inputs, "D'": after[layer].inputs}
    masks: dict[Batch, ObservedOutliers] = {"D": before[layer], "D'": after[layer]}
    cells = []
    for source, values in inputs.items():
        assert values is not None
        for chosen, seen in masks.items():
            progress(f"values of {source}, mask of {chosen}")
            common = common_rows(values, before[layer])
            cells.append(_cell(pair, layer, base, values=(source, common), mask=(chosen, seen)))
    return tuple(cells)


def common_rows(values: Tensor, base: ObservedOutliers) -> Tensor:
    """The rows of an input that belong to the records of D.

    Args:
        values: An input of D or D', ``[record, token, hidden]`` or flattened.
        base: What the layer saw of D.

    Returns:
        As many rows as D has.
    """
    assert base.inputs is not None
    return values[: len(base.inputs)]


def _cell(
    pair: "Pair",
    layer: str,
    base: Evaluation,
    *,
    values: tuple[Batch, Tensor],
    mask: tuple[Batch, ObservedOutliers],
) -> FactorialCell:
    """One cell."""
    columns = mask[1].union.nonzero().flatten()
    rule = PrescribedOutliers(
        [PrescribedSet(n_records=len(pair.baseline), columns=columns)],
        threshold=mask[1].threshold,
    )
    try:
        with _inputs_of(pair, layer, values[1]):
            changed = pair.run(pair.baseline, {layer: rule})
    except InvalidArgumentError as error:
        return FactorialCell(
            values=values[0], mask=mask[0], logit_max=0.0, logit_l2=0.0, problem=str(error)
        )
    assert base.logits is not None and changed.logits is not None and base.mask is not None
    change = (changed.logits - base.logits)[base.mask].double()
    return FactorialCell(
        values=values[0],
        mask=mask[0],
        logit_max=float(change.abs().max()),
        logit_l2=float(change.norm()),
    )


@contextmanager
def _inputs_of(pair: "Pair", layer: str, values: Tensor) -> Iterator[None]:
    """Give a layer other activations while the block runs."""

    def replace(module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        del module
        return (_Given.apply(args[0], values.to(args[0])), *args[1:])

    handle = int8_layers(pair.model)[layer].register_forward_pre_hook(replace)
    try:
        yield
    finally:
        handle.remove()


class _Given(torch.autograd.Function):
    """Other values in a tensor's place; the gradient passes as it is."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, values: Tensor) -> Tensor:
        del ctx, tensor
        return values.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        del ctx
        return grad_output, None

"""Run chosen int8 layers of a live model under other outlier rules, and set them back."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torch import Tensor, nn

from insular.errors import InvalidArgumentError
from insular.precision.layers import Int8Layer, int8_layers, int8_weight, runs_float_product
from insular.precision.outliers import OutlierRule
from insular.precision.ownership import RowOwnership, announce_masks
from insular.precision.product import int8_product


@contextmanager
def outlier_rules(
    model: nn.Module, rules: Mapping[str, OutlierRule], *, mask: Tensor | None = None
) -> Iterator[None]:
    """Make int8 layers compute under given rules while the block runs, forward and backward.

    The layers keep their codes and scales: nothing is quantised again.

    Guarantees:
        * On CPU the batched rule on layers of bitsandbytes changes no bit of outputs or gradients.
        * Afterwards, and after an error, the model is as it was.

    Args:
        model: The root whose forward the block runs; see
            :func:`~insular.precision.ownership.announce_masks` for how it tells whose a row is.
        rules: Plain name of a layer (:func:`~insular.precision.layers.int8_layers`) to its rule.
        mask: Real positions of every batch, ``[record, token]``, where the forward does not say.

    Yields:
        Nothing.

    Raises:
        InvalidArgumentError: If a name is no int8 layer; in the block, if a rule refuses a batch
            or a layer of bitsandbytes is in training mode on CPU.
    """
    layers = int8_layers(model)
    unknown = sorted(set(rules) - set(layers))
    if unknown:
        raise InvalidArgumentError(
            f"rules must name int8 layers of the model, got {', '.join(unknown)}; it has"
            f" {len(layers)}: see int8_layers."
        )
    ownership = RowOwnership()
    handle = announce_masks(model, ownership) if mask is None else None
    if mask is not None:
        ownership.announce(mask.bool())
    before = {name: vars(layers[name]).get("forward") for name in rules}
    try:
        for name, rule in rules.items():
            layer = layers[name]
            vars(layer)["forward"] = _forward(name, layer, rule=rule, ownership=ownership)
        yield
    finally:
        for name, own in before.items():
            if own is None:
                vars(layers[name]).pop("forward", None)
            else:
                vars(layers[name])["forward"] = own
        if handle is not None:
            handle.remove()


def _forward(
    name: str, layer: Int8Layer, *, rule: OutlierRule, ownership: RowOwnership
) -> Callable[[Tensor], Tensor]:
    """A layer's forward under another rule."""

    def forward(activations: Tensor, /) -> Tensor:
        if runs_float_product(layer):
            raise InvalidArgumentError(
                f"layer {name} must be in evaluation mode to run under a rule, got training mode,"
                " in which bitsandbytes has no outliers on this device."
            )
        weight = int8_weight(layer)
        try:
            return int8_product(activations, weight, layer.bias, rule=rule, ownership=ownership)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"layer {name}: {error}") from error

    return forward

"""What LLM.int8 would see while a model runs: each record's outlier columns, and their union."""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final
from weakref import ref

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from insular.errors import InvalidArgumentError
from insular.precision.layers import Int8Layer, int8_layers, outlier_threshold, takes_union
from insular.precision.ownership import RowOwnership, announce_masks


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ObservedOutliers:
    """The outlier columns of one batch at one int8 layer."""

    own: Bool[Tensor, "record hidden"]
    """Columns in which a real row of the record reaches the threshold."""
    padding: Bool[Tensor, " hidden"]
    """Columns in which a padding row does."""
    n_rows: Int[Tensor, " record"]
    """Real rows of each record."""
    threshold: float
    """Magnitude at or above which an activation is an outlier."""
    takes_union: bool
    """Whether the layer gave every row the union."""
    in_features: int
    """Input columns of the layer."""
    out_features: int
    """Outputs of the layer."""
    source: str
    """First layer of the same forward that read the same tensor; the layer itself if none did."""
    inputs: Tensor | None = None
    """The layer's input as it came, ``[record, token, hidden]``, if asked for."""

    @property
    def union(self) -> Bool[Tensor, " hidden"]:
        """Columns in which any row of the batch reaches the threshold, padding included."""
        return self.own.any(dim=0) | self.padding


@final
@dataclass(frozen=True, kw_only=True)
class OutlierLog:
    """What was observed, filled while the observed block runs."""

    forwards: list[dict[str, ObservedOutliers]] = field(default_factory=list)
    """One for each forward of the model: layer to observation, in order of execution. A layer that
    runs again in one forward is listed as ``name#2``."""


@contextmanager
def observe_outliers(
    model: nn.Module,
    *,
    layers: Collection[str] | None = None,
    keep_inputs: bool = False,
    mask: Tensor | None = None,
) -> Iterator[OutlierLog]:
    """Record the outlier columns at every int8 layer while the block runs.

    Only forwards in which the layer tests its activations count: not threshold 0, not a rule
    without a threshold, not bitsandbytes' training mode on CPU.

    Guarantees:
        * The union equals the columns that bitsandbytes' quantiser returns.
        * A record's own columns read its real rows only.
        * The model computes as before, and no hook stays behind.

    Args:
        model: The root whose forward the block runs; see
            :func:`~insular.precision.ownership.announce_masks` for how it tells whose a row is.
        layers: Plain names of the layers to observe; None for all.
        keep_inputs: Whether to keep a copy of each layer's input.
        mask: Real positions of every batch, ``[record, token]``, where the forward does not say.

    Yields:
        The log.
    """
    found = int8_layers(model)
    chosen = found if layers is None else _chosen(found, layers)
    watch = _Watch(keep_inputs=keep_inputs)
    handles = []
    if mask is None:
        handles.append(announce_masks(model, watch.ownership))
    else:
        watch.ownership.announce(mask.bool())
    handles.append(model.register_forward_pre_hook(watch.on_forward))
    for name, layer in chosen.items():
        handles.append(layer.register_forward_pre_hook(watch.on_layer(name), with_kwargs=True))
    try:
        yield watch.log
    finally:
        for handle in handles:
            handle.remove()


def _chosen(found: dict[str, Int8Layer], names: Collection[str]) -> dict[str, Int8Layer]:
    """The named layers, in the model's order."""
    unknown = sorted(set(names) - set(found))
    if unknown:
        raise InvalidArgumentError(
            f"layers must name int8 layers of the model, got {', '.join(unknown)}; it has"
            f" {len(found)}: see int8_layers."
        )
    return {name: layer for name, layer in found.items() if name in names}


@final
class _Watch:
    """The hooks of one observed block."""

    def __init__(self, *, keep_inputs: bool) -> None:
        self.log = OutlierLog()
        self.ownership = RowOwnership()
        self._keep_inputs = keep_inputs
        self._calls: Counter[str] = Counter()
        self._read: dict[int, tuple[ref[Tensor], int, ObservedOutliers]] = {}

    def on_forward(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Begin a forward of the model."""
        del module, args
        self.log.forwards.append({})
        self._calls.clear()
        self._read.clear()

    def on_layer(self, name: str) -> Any:
        """A pre-hook that observes one layer's input."""

        def hook(layer: Int8Layer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            threshold = outlier_threshold(layer)
            if threshold is None:
                return
            if not self.log.forwards:  # the block runs the layer alone
                self.log.forwards.append({})
            self._calls[name] += 1
            key = name if self._calls[name] == 1 else f"{name}#{self._calls[name]}"
            inputs: Tensor = next(iter((*args, *kwargs.values())))
            self.log.forwards[-1][key] = self._observe(key, layer, inputs, threshold)

        return hook

    def _observe(
        self, key: str, layer: Int8Layer, inputs: Tensor, threshold: float
    ) -> ObservedOutliers:
        """Observe an input, or take over what an earlier layer observed of the same tensor."""
        # A tensor that changed in place is another input; inference tensors count no changes.
        version = 0 if inputs.is_inference() else inputs._version
        seen = self._read.get(id(inputs))
        earlier = None
        if seen is not None and seen[0]() is inputs and seen[1] == version:
            earlier = seen[2]
        if earlier is not None and earlier.threshold == threshold:
            own, padding, kept = earlier.own, earlier.padding, earlier.inputs
        else:
            own, padding = self._columns(key, inputs, threshold)
            kept = inputs.detach().clone() if self._keep_inputs else None
        assert self.ownership.mask is not None
        observed = ObservedOutliers(
            own=own,
            padding=padding,
            n_rows=self.ownership.mask.sum(dim=1),
            threshold=threshold,
            takes_union=takes_union(layer),
            in_features=layer.in_features,
            out_features=layer.out_features,
            source=key if earlier is None else earlier.source,
            inputs=kept,
        )
        if earlier is None:
            self._read[id(inputs)] = (ref(inputs), version, observed)
        return observed

    def _columns(self, key: str, inputs: Tensor, threshold: float) -> tuple[Tensor, Tensor]:
        """Each record's own columns, and the padding's."""
        hidden = inputs.shape[-1]
        self.ownership.require(inputs.numel() // hidden, layer=key)
        mask = self.ownership.mask
        assert mask is not None
        values = inputs.detach().to(torch.float16).float()
        over = (values.abs() >= threshold).view(*mask.shape, hidden)
        real = mask.unsqueeze(2)
        return (over & real).any(dim=1), (over & ~real).flatten(0, 1).any(dim=0)

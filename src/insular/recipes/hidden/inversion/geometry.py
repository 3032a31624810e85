"""The geometry of a layer from prompts that are not inverted, for mechanisms to be fitted to."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from insular.recipes.hidden.spec import SweepSpec

if TYPE_CHECKING:
    from insular.hidden.geometry.release_geometry import ReleaseGeometry
    from insular.hidden.states.forward import SplitDecoder
    from insular.records import TokenisedRecord

_LABELS = 4
"""Next tokens drawn for each prompt."""
_PART = 32
"""Prompts that are held at once: each keeps keys and values of all its tokens."""


def fit_geometries(
    split: "SplitDecoder",
    records: "Sequence[TokenisedRecord]",
    *,
    layer: int,
    pad_token_id: int,
    seed: int,
) -> "tuple[ReleaseGeometry, ReleaseGeometry]":
    """Run prompts and estimate what the model reads of their last states, and how these differ.

    Args:
        split: The model.
        records: The prompts.
        layer: The layer.
        pad_token_id: Fills up a batch.
        seed: Of the labels.

    Returns:
        The geometry whose differences are those of random pairs, and that of nearest neighbours.
    """
    import torch

    from insular.hidden.states.gradients import hidden_gradients
    from insular.hidden.states.prompts import hold_prompts
    from insular.recipes.hidden.mechanisms import fitted_geometries

    rows, gradients = [], []
    for start in range(0, len(records), _PART):
        held = hold_prompts(
            split,
            records[start : start + _PART],
            layers=[layer],
            labels="none",
            pad_token_id=pad_token_id,
        )
        found = hidden_gradients(
            split,
            held,
            layer=layer,
            kind="true",
            labels_per_prompt=_LABELS,
            seed=seed + start,  # other draws for other prompts
        )
        rows.append(held.states(layer).cpu().double())
        gradients.append(found.rows.cpu().double())
    return fitted_geometries(torch.cat(rows), torch.cat(gradients), shrinkage=SweepSpec.shrinkage)

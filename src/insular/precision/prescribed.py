"""Outlier rules that interventions use: columns that are told, and records that are shielded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from insular import _check
from insular.errors import InvalidArgumentError
from insular.precision.outliers import (
    OutlierRule,
    OutlierSplit,
    ResidualProduct,
    ThresholdRule,
    float16_threshold,
)
from insular.precision.ownership import RowOwnership


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class PrescribedSet:
    """The outlier columns of some consecutive records of a batch."""

    n_records: int
    """How many records."""
    columns: Int[Tensor, " outlier"]
    """Input columns, ascending."""


@final
class PrescribedOutliers(OutlierRule):
    """Prescribed columns for each group of records, whatever their activations say.

    An intervention, not a repair: the columns are chosen with the batch in view.

    Guarantees:
        * One set for the whole batch, equal to its union, gives the batched rule's bits.
        * Each set is one product over its records' rows: the same records under the same set give
          the same bits, whatever the other sets of the batch are.
        * A real row with an outlier outside its set is refused, unless ``widen``: a set that
          omits a natural outlier is not what LLM.int8 would have done with any other records
          beside these. With ``widen`` the entry stays in the int8 product, and in its row's scale.
        * Padding rows take their record's set; they are nobody's, so they are never refused.

    Args:
        sets: One for each group of consecutive records; together they cover the batch.
        threshold: Magnitude at or above which an activation is an outlier.
        widen: Whether outliers outside a set stay in the int8 product.

    Source:
        Zhang et al. (2026), section 6.4. https://arxiv.org/abs/2611.01411
    """

    name = "prescribed"

    def __init__(
        self, sets: Sequence[PrescribedSet], *, threshold: float, widen: bool = False
    ) -> None:
        _check.positive_finite(threshold=threshold)
        self.sets = tuple(sets)
        self.threshold = float16_threshold(threshold)
        self.widen = widen

    def split(self, activations: Tensor, row_max: Tensor, ownership: RowOwnership) -> OutlierSplit:
        """Give each group its set, and test the rows that reach the threshold against it."""
        hidden = activations.shape[1]
        ownership.require(activations.shape[0], layer="with prescribed columns")
        assert ownership.mask is not None
        n_records, n_tokens = ownership.mask.shape
        self._check_sets(n_records, hidden)
        scale = row_max
        loud = (~(row_max < self.threshold)).nonzero().flatten()
        if loud.numel():
            magnitudes = activations[loud].abs()
            over = magnitudes >= self.threshold
            mine = self._table(hidden, activations.device)[loud // n_tokens]
            if not self.widen:
                self._refuse_others(over & ~mine, loud, ownership.mask)
            scale = row_max.clone()
            scale[loud] = magnitudes.masked_fill_(over & mine, 0.0).amax(dim=1)
        return OutlierSplit(scale=scale, products=self._products(n_tokens))

    def _products(self, n_tokens: int) -> tuple[ResidualProduct, ...]:
        """One product for each set that is not empty."""
        products, start = [], 0
        for chosen in self.sets:
            stop = start + chosen.n_records * n_tokens
            if chosen.columns.numel():
                products.append(ResidualProduct(rows=slice(start, stop), columns=chosen.columns))
            start = stop
        return tuple(products)

    def _table(self, hidden: int, device: torch.device) -> Bool[Tensor, "record hidden"]:
        """Which columns are prescribed for each record."""
        rows = []
        for chosen in self.sets:
            row = torch.zeros(hidden, dtype=torch.bool, device=device)
            row[chosen.columns] = True
            rows.extend([row] * chosen.n_records)
        return torch.stack(rows)

    def _check_sets(self, n_records: int, hidden: int) -> None:
        """Refuse sets that are not for this batch."""
        covered = sum(chosen.n_records for chosen in self.sets)
        if covered != n_records:
            raise InvalidArgumentError(
                f"prescribed sets must cover the batch's {n_records} records, got sets for"
                f" {covered}; give one rule for each batch."
            )
        for chosen in self.sets:
            if chosen.columns.numel() and not 0 <= int(chosen.columns.max()) < hidden:
                raise InvalidArgumentError(
                    f"prescribed columns must be below the layer's {hidden} inputs, got column"
                    f" {int(chosen.columns.max())}."
                )

    def _refuse_others(self, outside: Tensor, loud: Tensor, mask: Tensor) -> None:
        """Refuse a real row's outlier that its set omits."""
        outside = outside & mask.flatten()[loud].unsqueeze(1)
        found = outside.nonzero()
        if found.numel():
            row, column = found[0].tolist()
            raise InvalidArgumentError(
                "prescribed columns must hold every outlier of their records' real rows, got one in"
                f" column {column} outside the set of record {int(loud[row]) // mask.shape[1]};"
                " add the column, or pass widen=True to keep such entries in the int8 product."
            )


@final
class ShieldedOutliers(ThresholdRule):
    """The first records take the union among themselves; the others the union of the whole batch.

    An intervention, not a repair: no column of a later record reaches the first ones, and nothing
    else changes.

    Guarantees:
        * The first records compute what LLM.int8 computes of a batch of them alone, bit for bit.
        * The other records compute what LLM.int8 computes of the whole batch, up to the rounding
          of a product with fewer rows.

    Args:
        threshold: Magnitude at or above which an activation is an outlier.
        n_shielded: How many records come first.
    """

    name = "shielded"

    def __init__(self, threshold: float, *, n_shielded: int) -> None:
        super().__init__(threshold)
        _check.at_least(1, n_shielded=n_shielded)
        self.n_shielded = n_shielded

    def assign(
        self, loud: Tensor, over: Tensor | None, scale: Tensor, ownership: RowOwnership
    ) -> OutlierSplit:
        """Give the first records' rows, padding included, their own union."""
        ownership.require(scale.shape[0], layer="with shielded records")
        assert ownership.mask is not None
        if over is None:
            return OutlierSplit(scale=scale)
        first = self.n_shielded * ownership.mask.shape[1]
        products = []
        for rows, mine in ((slice(0, first), over[loud < first]), (slice(first, None), over)):
            columns = mine.any(dim=0).nonzero().flatten()
            stop = scale.shape[0] if rows.stop is None else rows.stop
            if columns.numel() and rows.start < stop:
                products.append(ResidualProduct(rows=slice(rows.start, stop), columns=columns))
        return OutlierSplit(scale=scale, products=tuple(products))

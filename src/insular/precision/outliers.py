"""Five rules that say which columns of which rows leave the int8 product.

A rule reads the activations of one layer and returns an :class:`OutlierSplit`: a scale for every
row, and which columns are multiplied in the input's own precision instead. The product itself
(:mod:`insular.precision.product`) is the same for all of them.

    batched      one set for all rows of the batch, padding included: LLM.int8 as shipped
    record       one set per record, from its own real rows
    token        one set per row
    calibrated   one fixed set, chosen beforehand from public text
    none         no outliers: one scale per row
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from insular.precision.ownership import RowOwnership, Rows

ALL_ROWS = slice(None)


@final
@dataclass(frozen=True, kw_only=True)
class ResidualProduct:
    """Columns that some rows compute outside the int8 product."""

    rows: Rows
    """Rows of the flattened batch."""
    columns: Int[Tensor, " outlier"]
    """Input columns, ascending."""


@final
@dataclass(frozen=True, kw_only=True)
class OutlierCells:
    """Single cells outside the int8 product, sorted by row, then by column."""

    rows: Int[Tensor, " cell"]
    """Row of each cell."""
    columns: Int[Tensor, " cell"]
    """Column of each cell."""


@final
@dataclass(frozen=True, kw_only=True)
class OutlierSplit:
    """What a rule decided for one layer and one batch."""

    scale: Float[Tensor, " row"]
    """Largest magnitude that stays in the int8 product, per row, in activation units."""
    products: tuple[ResidualProduct, ...] = ()
    """Column sets to compute separately, one dense product each."""
    cells: OutlierCells | None = None
    """Cells to compute separately, row by row."""
    silenced: Tensor | None = None
    """Rows that contribute nothing (padding), or None."""


class OutlierRule(ABC):
    """Decides which activations leave the int8 product."""

    name: str

    @abstractmethod
    def split(
        self,
        activations: Float[Tensor, "row hidden"],
        row_max: Float[Tensor, " row"],
        ownership: RowOwnership,
    ) -> OutlierSplit:
        """Divide one layer's activations.

        Args:
            activations: Float16 values, held in float32.
            row_max: Largest magnitude of each row.
            ownership: Whose each row is.

        Returns:
            The division.
        """


@final
class NoOutliers(OutlierRule):
    """Every entry goes through int8: threshold 0."""

    name = "none"

    def split(self, activations: Tensor, row_max: Tensor, ownership: RowOwnership) -> OutlierSplit:
        """Keep everything."""
        return OutlierSplit(scale=row_max)


class ThresholdRule(OutlierRule):
    """A rule that tests magnitudes against a threshold, itself rounded to float16."""

    def __init__(self, threshold: float) -> None:
        self.threshold = float16_threshold(threshold)

    def split(self, activations: Tensor, row_max: Tensor, ownership: RowOwnership) -> OutlierSplit:
        """Test the rows that reach the threshold, and leave the rest alone."""
        # The negation keeps a row whose maximum is NaN: its other cells may reach the threshold.
        loud = (~(row_max < self.threshold)).nonzero().flatten()
        if loud.numel() == 0:
            return self.assign(loud, None, row_max, ownership)
        magnitudes = activations[loud].abs()
        over = magnitudes >= self.threshold
        scale = row_max.clone()
        scale[loud] = magnitudes.masked_fill_(over, 0.0).amax(dim=1)
        return self.assign(loud, over, scale, ownership)

    @abstractmethod
    def assign(
        self,
        loud: Int[Tensor, " loud"],
        over: Bool[Tensor, "loud hidden"] | None,
        scale: Float[Tensor, " row"],
        ownership: RowOwnership,
    ) -> OutlierSplit:
        """Turn the outlier cells of the ``loud`` rows into column sets."""


@final
class BatchedOutliers(ThresholdRule):
    """One union over every row of the batch. Couples records: LLM.int8 as shipped."""

    name = "batched"

    def assign(
        self, loud: Tensor, over: Tensor | None, scale: Tensor, ownership: RowOwnership
    ) -> OutlierSplit:
        """Give every row the union of all rows' outlier columns."""
        if over is None:
            return OutlierSplit(scale=scale)
        columns = over.any(dim=0).nonzero().flatten()
        return OutlierSplit(
            scale=scale, products=(ResidualProduct(rows=ALL_ROWS, columns=columns),)
        )


@final
class RecordOutliers(ThresholdRule):
    """One set per record, from its own real rows only.

    Guarantees:
        * A record's set and its residual product read that record's real rows only.
        * Padding rows never enter a set, and contribute nothing.
    """

    name = "record"

    def assign(
        self, loud: Tensor, over: Tensor | None, scale: Tensor, ownership: RowOwnership
    ) -> OutlierSplit:
        """Give each record's rows the union of that record's outlier columns."""
        ownership.require(scale.shape[0], layer="with the record rule")
        products = []
        if over is not None:
            for rows in ownership.rows:
                mine = _members(loud, rows)
                columns = over[mine].any(dim=0).nonzero().flatten()
                if columns.numel():
                    products.append(ResidualProduct(rows=rows, columns=columns))
        return OutlierSplit(scale=scale, products=tuple(products), silenced=ownership.padding)


@final
class TokenOutliers(ThresholdRule):
    """One set per row: only the cells that reach the threshold."""

    name = "token"

    def assign(
        self, loud: Tensor, over: Tensor | None, scale: Tensor, ownership: RowOwnership
    ) -> OutlierSplit:
        """List the cells in row order."""
        if over is None:
            return OutlierSplit(scale=scale)
        which, columns = over.nonzero(as_tuple=True)
        return OutlierSplit(scale=scale, cells=OutlierCells(rows=loud[which], columns=columns))


@final
class CalibratedOutliers(OutlierRule):
    """One fixed set of columns, chosen beforehand from public text.

    Entries at or above a threshold outside the set stay in the int8 product and widen their row's
    scale.
    """

    name = "calibrated"

    def __init__(self, columns: Int[Tensor, " outlier"]) -> None:
        self.columns = columns

    def split(self, activations: Tensor, row_max: Tensor, ownership: RowOwnership) -> OutlierSplit:
        """Give every row the fixed set."""
        if self.columns.numel() == 0:
            return OutlierSplit(scale=row_max)
        scale = activations.abs().index_fill_(1, self.columns, 0.0).amax(dim=1)
        return OutlierSplit(
            scale=scale, products=(ResidualProduct(rows=ALL_ROWS, columns=self.columns),)
        )


def float16_threshold(threshold: float) -> float:
    """The threshold as bitsandbytes applies it: it compares float16 values with a float16 number.

    Args:
        threshold: Magnitude at or above which an activation is an outlier.

    Returns:
        The nearest float16 number.
    """
    return float(torch.tensor(threshold, dtype=torch.float16))


def _members(loud: Tensor, rows: Rows) -> Tensor:
    """Which entries of ``loud`` (sorted row indices) lie in ``rows``."""
    if isinstance(rows, slice):
        return (loud >= rows.start) & (loud < rows.stop)
    return torch.isin(loud, rows)

"""How often outlier columns of one record reach another. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular.audit.localisation.places import block_of, kind_of


@final
@dataclass(frozen=True, kw_only=True)
class BatchCensus:
    """All records, divided into batches of one size.

    A *pair* is a record at a layer whose union is not empty in the record's batch. It is *altered*
    if the union holds a column that the record itself does not have.
    """

    batch: int
    """Records in a batch."""
    n_batches: int
    """Batches."""
    n_layers: int
    """Layers whose union is not empty in at least one batch."""
    n_pairs: int
    """Record-layer pairs at a union that is not empty."""
    n_altered: int
    """Pairs whose union holds a column that is not the record's own."""
    n_columns: int
    """Columns outside the int8 product, summed over pairs."""
    n_foreign: int
    """Of these, columns that are not the record's own."""
    n_padding: int
    """Of these, columns that no record of the batch has: padding alone brought them in."""
    largest_union: int
    """Columns of the largest union."""
    correction_work: int
    """Multiply-adds outside the int8 product for real rows: rows x columns x outputs, summed."""
    owned_work: int
    """The same, if each record computed its own columns only."""

    @property
    def altered_share(self) -> float:
        """Share of pairs that another record or padding altered; 0 without pairs."""
        return _share(self.n_altered, self.n_pairs)

    @property
    def foreign_share(self) -> float:
        """Share of columns that are not the record's own; 0 without columns."""
        return _share(self.n_foreign, self.n_columns)

    @property
    def padding_share(self) -> float:
        """Share of columns that padding alone brought in; 0 without columns."""
        return _share(self.n_padding, self.n_columns)

    @property
    def saved_share(self) -> float:
        """Share of the correction work that record ownership saves; 0 without work."""
        return _share(self.correction_work - self.owned_work, self.correction_work)


@final
@dataclass(frozen=True, kw_only=True)
class LayerCensus:
    """One int8 layer under a threshold."""

    name: str
    """Qualified name in the decoder."""
    in_features: int
    """Input columns."""
    out_features: int
    """Outputs."""
    source: str
    """First layer that reads the same input, such as the query for key and value; else itself."""
    unions: tuple[int, ...]
    """Columns of the largest union, for each batch size of the census in its order."""
    takes_union: bool
    """Whether the layer gave each row the union. If not, it altered nothing, and the counts say
    what LLM.int8 would have done with its activations."""
    n_altered: int
    """Records that are altered here at the largest batch size."""

    @property
    def block(self) -> int | None:
        """Number of the decoder block, or None outside the blocks."""
        return block_of(self.name)

    @property
    def kind(self) -> str:
        """What the layer is in its block, such as ``mlp.down_proj``."""
        return kind_of(self.name)


@final
@dataclass(frozen=True, kw_only=True)
class CensusResult:
    """Each record's own outlier columns, held against its batch's union, at several batch sizes."""

    records: tuple[str, ...]
    """Ids, in batch order."""
    width: int
    """Padded length, in tokens."""
    n_tokens: int
    """Real tokens of all records."""
    thresholds: tuple[float, ...]
    """Magnitudes at or above which the layers call an activation an outlier, ascending."""
    device: str
    """Device type on which the forwards ran."""
    seconds: float
    """Wall-clock time of all forwards."""
    batches: tuple[BatchCensus, ...]
    """One for each batch size, ascending."""
    layers: tuple[LayerCensus, ...]
    """Every observed layer, in order of execution."""

    @property
    def takes_union(self) -> bool:
        """Whether any layer gave each row the union; else every share is about LLM.int8 only."""
        return any(layer.takes_union for layer in self.layers)

    @property
    def largest(self) -> BatchCensus:
        """The census at the largest batch size."""
        return self.batches[-1]

    @property
    def distinct_inputs(self) -> tuple[LayerCensus, ...]:
        """The layers without those that read the input of an earlier one, and so agree with it."""
        return tuple(layer for layer in self.layers if layer.source == layer.name)

    def at(self, batch: int) -> BatchCensus | None:
        """The census at one batch size.

        Args:
            batch: Records in a batch.

        Returns:
            The census, or None if that size was not run.
        """
        return next((census for census in self.batches if census.batch == batch), None)

    def sharing(self, layer: LayerCensus) -> tuple[LayerCensus, ...]:
        """The layers that read one input.

        Args:
            layer: One of them.

        Returns:
            All of them, in order of execution.
        """
        return tuple(other for other in self.layers if other.source == layer.source)


def _share(part: int, whole: int) -> float:
    """A share, 0 of nothing."""
    return part / whole if whole else 0.0

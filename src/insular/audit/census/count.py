"""How often natural text takes the path by which LLM.int8 couples records."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import nn

from insular import _check
from insular.audit.census.results import BatchCensus, CensusResult, LayerCensus
from insular.audit.subjects.model_subject import ModelSubject
from insular.audit.subjects.subject import Subject
from insular.errors import InvalidArgumentError
from insular.precision.layers import int8_layers
from insular.precision.observation import ObservedOutliers, observe_outliers
from insular.records.tokens import TokenisedRecord

BATCH_SIZES = (2, 4, 8, 16)
"""Batch sizes of Zhang et al. (2026), Figure 2."""

Forward = dict[str, ObservedOutliers]
"""What one forward of the model showed, by layer."""


def run_census(
    subject: Subject,
    records: Sequence[TokenisedRecord],
    *,
    width: int | None = None,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> CensusResult | None:
    """Hold each record's own outlier columns against its batch's union, at several batch sizes.

    The same records are divided into consecutive batches of each size. Their order, and so who
    shares a batch with whom, is the caller's.

    Guarantees:
        * A record alone, without padding, has no foreign column.
        * Records that all have the same outlier columns are never altered.
        * The subject and the global random generators are left as they were.

    Args:
        subject: The stack under test. A
            :class:`~insular.audit.subjects.model_subject.ModelSubject` runs forward only; another
            subject that shows its model runs whole evaluations.
        records: As many as every batch size divides.
        width: Padded length, in tokens; None for the longest record.
        batch_sizes: Records in a batch, distinct.
        seed: Set before every batch.
        progress: Called with a short line before each batch size.

    Returns:
        The census, or None where no int8 layer tests its activations against a threshold.

    Raises:
        InvalidArgumentError: If a batch size does not divide the records.

    Source:
        Zhang et al. (2026), section 6.2. https://arxiv.org/abs/2611.01411
    """
    sizes = _checked_sizes(batch_sizes, len(records))
    model = subject.model if isinstance(subject, ModelSubject) else subject.traced_model()
    if model is None or not int8_layers(model):
        return None
    width = max(len(record.tokens) for record in records) if width is None else width
    counts = _Counts()
    started = time.perf_counter()
    for size in sizes:
        if progress is not None:
            progress(f"census at batch {size}")
        counts.begin(size, n_batches=len(records) // size)
        for first in range(0, len(records), size):
            batch = records[first : first + size]
            for forward in _observed(subject, model, batch, width=width, seed=seed):
                counts.add(forward)
        if not counts.layers:
            return None
    return CensusResult(
        records=tuple(record.id for record in records),
        width=width,
        n_tokens=sum(len(record.tokens) for record in records),
        thresholds=tuple(sorted(counts.thresholds)),
        device=next(model.parameters()).device.type,
        seconds=time.perf_counter() - started,
        batches=tuple(tally.result() for tally in counts.tallies),
        layers=tuple(layer.result(len(sizes)) for layer in counts.layers.values()),
    )


def _checked_sizes(batch_sizes: Sequence[int], n_records: int) -> tuple[int, ...]:
    """The batch sizes, ascending."""
    for size in batch_sizes:
        _check.at_least(1, batch_sizes=size)
    uneven = n_records == 0 or any(n_records % size for size in batch_sizes)
    if uneven or not batch_sizes or len(set(batch_sizes)) != len(batch_sizes):
        raise InvalidArgumentError(
            f"batch_sizes must be distinct divisors of the number of records, {n_records}, got"
            f" batch_sizes={tuple(batch_sizes)}; leave out a size, or give other records."
        )
    return tuple(sorted(batch_sizes))


def _observed(
    subject: Subject,
    model: nn.Module,
    batch: Sequence[TokenisedRecord],
    *,
    width: int,
    seed: int,
) -> list[Forward]:
    """Run one batch under observation."""
    forward_only = isinstance(subject, ModelSubject)
    mask = None if forward_only else subject.mask(batch, width=width)
    with observe_outliers(model, mask=mask) as log, torch.random.fork_rng():
        torch.manual_seed(seed)
        if forward_only:
            subject.forward(batch, width=width)
        else:
            subject.evaluate(batch, width=width)
    return log.forwards


@final
@dataclass(kw_only=True)
class _Tally:
    """The running sums of one batch size."""

    batch: int
    n_batches: int
    names: set[str] = field(default_factory=set)
    n_pairs: int = 0
    n_altered: int = 0
    n_columns: int = 0
    n_foreign: int = 0
    n_padding: int = 0
    largest_union: int = 0
    correction_work: int = 0
    owned_work: int = 0

    def add(self, name: str, seen: ObservedOutliers, *, size: int, n_altered: int) -> None:
        """Count one layer of one batch, whose union has ``size`` columns."""
        n_records = seen.own.shape[0]
        own = seen.own.sum(dim=1)
        self.names.add(name)
        self.n_pairs += n_records
        self.n_altered += n_altered
        self.n_columns += n_records * size
        self.n_foreign += n_records * size - int(own.sum())
        self.n_padding += n_records * (size - int(seen.own.any(dim=0).sum()))
        self.largest_union = max(self.largest_union, size)
        self.correction_work += int(seen.n_rows.sum()) * size * seen.out_features
        self.owned_work += int((seen.n_rows * own).sum()) * seen.out_features

    def result(self) -> BatchCensus:
        """The sums as they are kept."""
        return BatchCensus(
            batch=self.batch,
            n_batches=self.n_batches,
            n_layers=len(self.names),
            n_pairs=self.n_pairs,
            n_altered=self.n_altered,
            n_columns=self.n_columns,
            n_foreign=self.n_foreign,
            n_padding=self.n_padding,
            largest_union=self.largest_union,
            correction_work=self.correction_work,
            owned_work=self.owned_work,
        )


@final
@dataclass(kw_only=True)
class _Layer:
    """The running findings at one layer."""

    name: str
    seen: ObservedOutliers
    unions: dict[int, int] = field(default_factory=dict)
    n_altered: int = 0

    def result(self, n_sizes: int) -> LayerCensus:
        """The findings as they are kept."""
        return LayerCensus(
            name=self.name,
            in_features=self.seen.in_features,
            out_features=self.seen.out_features,
            source=self.seen.source,
            takes_union=self.seen.takes_union,
            unions=tuple(self.unions.get(i, 0) for i in range(n_sizes)),
            n_altered=self.n_altered,
        )


@final
class _Counts:
    """The running sums of a census."""

    def __init__(self) -> None:
        self.tallies: list[_Tally] = []
        self.layers: dict[str, _Layer] = {}
        self.thresholds: set[float] = set()

    def begin(self, size: int, *, n_batches: int) -> None:
        """Go on to the next batch size: a layer counts the records altered at the last one."""
        self.tallies.append(_Tally(batch=size, n_batches=n_batches))
        for layer in self.layers.values():
            layer.n_altered = 0

    def add(self, forward: Forward) -> None:
        """Count every layer of one forward."""
        position = len(self.tallies) - 1
        for name, seen in forward.items():
            layer = self.layers.setdefault(name, _Layer(name=name, seen=seen))
            self.thresholds.add(seen.threshold)
            union = seen.union
            size = int(union.sum())
            if size == 0:
                continue
            n_altered = int((union & ~seen.own).any(dim=1).sum())
            self.tallies[position].add(name, seen, size=size, n_altered=n_altered)
            layer.unions[position] = max(layer.unions.get(position, 0), size)
            layer.n_altered += n_altered

"""What ran, read from a bench: the path, the stack, the base batch."""

from collections.abc import Sequence

import torch
from torch import Tensor

from insular.audit.isolation.bench import Bench, as_array
from insular.audit.isolation.cases import Case
from insular.audit.isolation.results import ExecutionPath, SubjectManifest
from insular.audit.isolation.validation import untouched
from insular.evidence import digest_array


def execution_path(bench: Bench, cases: Sequence[Case]) -> ExecutionPath:
    """The path that ran, read from what executed.

    Args:
        bench: The subject on its base batch.
        cases: Every changed batch.

    Returns:
        The path.
    """
    size = bench.facts.physical_batch
    shapes = {(len(bench.records), bench.width), *((len(c.records), c.width) for c in cases)}
    if size:
        shapes = {(size, width) for _, width in shapes}
    return ExecutionPath(
        device=_device(bench.base.gradients),
        mode=bench.facts.mode,
        dtype=bench.facts.dtype,
        operators=dict(sorted(bench.trace.counts.items())),
        shapes=tuple(sorted(shapes)),
        threads=torch.get_num_threads(),
        versions=bench.facts.versions,
    )


def subject_manifest(bench: Bench) -> SubjectManifest:
    """The stack, read from its objects.

    Args:
        bench: The subject on its base batch.

    Returns:
        The manifest.
    """
    return SubjectManifest(
        name=bench.subject.name,
        engine=bench.facts.engine,
        model=bench.facts.model,
        model_digest=bench.facts.model_digest,
        n_params=bench.base.gradients.shape[1],
        trainable=tuple(name for name, _ in bench.facts.trainable),
        untouched=untouched(bench.base, bench.facts),
        replaced=bench.facts.replaced or {},
        physical_batch=bench.facts.physical_batch or len(bench.records),
        logical_batch=len(bench.records),
        loss=bench.facts.loss,
        sampler=bench.facts.sampler,
        clipping=bench.facts.clipping,
        clip_norm=bench.spec.clip_norm,
        stabiliser=bench.spec.stabiliser,
    )


def clipped_share(bench: Bench) -> float:
    """Share of the base batch's records whose gradient is longer than the clip norm.

    Args:
        bench: The subject on its base batch.

    Returns:
        A share in [0, 1].
    """
    norms = bench.base.gradients.double().norm(dim=1)
    return float((norms > bench.spec.clip_norm).double().mean())


def mean_loss(bench: Bench) -> float:
    """Mean loss of the base batch, in nats.

    Args:
        bench: The subject on its base batch.

    Returns:
        The loss, or NaN where the subject shows none.
    """
    return float("nan") if bench.base.losses is None else float(bench.base.losses.double().mean())


def gradient_digests(bench: Bench) -> dict[str, str]:
    """Digest of each base record's gradient.

    Args:
        bench: The subject on its base batch.

    Returns:
        Record id to digest.
    """
    rows = bench.base.gradients
    return {name: digest_array(as_array(row)) for name, row in zip(bench.ids, rows, strict=True)}


def _device(tensor: Tensor) -> str:
    """Device type, with its name where it has one."""
    if tensor.device.type == "cuda":
        return f"cuda ({torch.cuda.get_device_name(tensor.device)})"
    return tensor.device.type

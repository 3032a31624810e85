"""Constructed witnesses: eight one-row records whose clipped sum is pushed to its worst case.

They run the operators that are installed, on the device asked for, and so show whether the audit's
instruments find a coupling that is there and none where there is none.
"""

import importlib.metadata
import importlib.util
from collections import Counter

import torch

from insular.audit.witnesses.arms import Arm, witness_arms
from insular.audit.witnesses.results import Relation, Witness, WitnessCase, WitnessResult
from insular.audit.witnesses.runs import CLIP_NORM, COMMON, LOUD, QUIET, common_record, run_batch
from insular.errors import InvalidArgumentError
from insular.precision.stock import quiet_bitsandbytes

PUBLISHED: dict[tuple[Witness, Relation], float] = {
    ("operator", "replace"): 7.0,
    ("lora", "add/remove"): 0.07499169931 / 0.005,
    ("lora", "replace"): 0.06999170035 / 0.01,
}
"""Distance over the separable bound, for each witness and relation."""


def run_witnesses(*, device: str = "cpu") -> WitnessResult:
    r"""Run the operator witness and the LoRA witness under every arithmetic.

    Seven common records lie just beside the label that separates their int8 from their float16
    output. In the operator witness a scalar bias is trained and a record's gradient is clipped to
    :math:`g \min(1, C / |g|)`; in the LoRA witness a rank-one adapter with B = 0 and
    A = [1, 0, 0, 0] is trained (scale 1, so that a common record's gradient is 1.234375 times the
    bias's), per record by Opacus, clipped and summed by its optimizer in float32, without a
    divisor: the published distances lie between such sums. Without Opacus a loop over autograd and
    the same formula take its place, and the result says so.

    Guarantees:
        * bitsandbytes' layer exceeds the separable bound 7-fold (operator, replace), 14.998-fold
          (LoRA, add or remove) and 6.999-fold (LoRA, replace), on CPU in evaluation mode.
        * Every control keeps the bound; an identical repeat has distance 0.
        * Every per-record gradient of Opacus is compared with independent autograd on the same
          batch.

    Args:
        device: Where to run: ``cpu``, ``cuda`` or ``cuda:N``.

    Returns:
        Every case, with the operators that ran.

    Raises:
        InvalidArgumentError: If the device is not there.

    Source:
        Zhang et al. (2026), section 6.1 and appendix A. https://arxiv.org/abs/2611.01411
    """
    where = _device(device)
    use_opacus = importlib.util.find_spec("opacus") is not None
    cases: list[WitnessCase] = []
    with quiet_bitsandbytes():
        arms = witness_arms(where)
        for witness in ("operator", "lora"):
            for arm in arms:
                cases += _cases(witness, arm, where, use_opacus=use_opacus and witness == "lora")
        quiet, loud = (common_record(arms[0], rows, device=where) for rows in (QUIET, LOUD))
    return WitnessResult(
        device=where.type,
        device_name=torch.cuda.get_device_name(where) if where.type == "cuda" else "cpu",
        operator_outputs=(quiet[0], loud[0]),
        operator_gradients=(quiet[1], loud[1]),
        cases=tuple(cases),
        versions=_versions(),
        engine="opacus" if use_opacus else "autograd loop with Opacus' clipping formula",
    )


def _cases(
    witness: Witness, arm: Arm, device: torch.device, *, use_opacus: bool
) -> list[WitnessCase]:
    """Every pair of one witness under one arm: replace, add, and the identical repeat."""
    pairs: list[tuple[str, str, Relation, str]] = [("quiet", "loud", "replace", arm.name)]
    if witness == "lora":
        pairs.append(("common", "loud", "add/remove", arm.name))
    if arm.coupled:
        pairs.append(("loud", "again", "replace", f"{arm.name}, identical repeat"))
    inputs = {"common": COMMON, "quiet": QUIET, "loud": LOUD, "again": LOUD}
    needed = {name for pair in pairs for name in pair[:2]}
    runs = {
        name: run_batch(witness, arm, rows=inputs[name], device=device, use_opacus=use_opacus)
        for name in sorted(needed)
    }
    return [
        WitnessCase(
            witness=witness,
            arm=name,
            mode=arm.mode,
            relation=relation,
            distance=float((runs[first].clipped_sum - runs[second].clipped_sum).norm()),
            clip_norm=CLIP_NORM,
            expected_ratio=_expected(witness, arm, relation, second),
            gradient_error=_largest(runs[first].gradient_error, runs[second].gradient_error),
            operators=_added(runs[first].operators, runs[second].operators),
        )
        for first, second, relation, name in pairs
    ]


def _expected(witness: Witness, arm: Arm, relation: Relation, second: str) -> float | None:
    """The published ratio where the arm couples records, 0 for a repeat, None for a control."""
    if second == "again":
        return 0.0
    return PUBLISHED[witness, relation] if arm.coupled else None


def _largest(first: float | None, second: float | None) -> float | None:
    """The larger of two errors; None where there is none."""
    return None if first is None or second is None else max(first, second)


def _added(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Two counts, added."""
    return dict(sorted((Counter(first) + Counter(second)).items()))


def _device(name: str) -> torch.device:
    """The device, if it is there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    present = device.type == "cpu" or (
        device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()
    )
    if not present:
        raise InvalidArgumentError(
            f"device must be cpu or one of {torch.cuda.device_count()} CUDA devices, got"
            f" device={name!r}."
        )
    return device


def _versions() -> dict[str, str]:
    """Versions of the packages that computed."""
    found = {}
    for package in ("torch", "bitsandbytes", "peft", "opacus"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found

"""Training runs as shadow models: which records each learnt, and whether it may be compared."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

import numpy as np

from insular.audit.membership.duplicates import plain_text
from insular.audit.membership.likelihood_ratio import drawn_alike
from insular.errors import EvidenceError, InsularError, InvalidArgumentError, RecordError
from insular.evidence import InputFact, sha256_of
from insular.recipes.attack.attacked_model import ADAPTER_CONFIG, ADAPTER_WEIGHTS, AttackedModel
from insular.recipes.attack.membership.inputs import AttackInputs
from insular.recipes.attack.membership.spec import MembershipSpec
from insular.recipes.attack.training.run import open_training
from insular.recipes.run_folder import run_fact
from insular.recipes.train.data import prepare_text, read_training_corpus
from insular.recipes.train.results import TrainResult
from insular.recipes.train.run import ADAPTER
from insular.recipes.train.spec import TrainSpec
from insular.records import Record

UNEVEN = 1e-4
"""Probability of refusing shadow models whose halves were drawn at random."""
_MAY_DIFFER = frozenset(
    {"model", "text", "text_field", "id_field", "encoding", "missing_owner", "public_units"}
    | {"delta", "validation", "validation_records", "ledger", "population", "release"}
    | {"physical_tokens", "attention", "device", "threads", "seed", "noise_seed"}
)
"""Settings that do not make another model than chance does; ``model`` is compared by digest."""
_SHAPE = ("r", "lora_alpha", "target_modules", "layers_to_transform")
"""What an adapter says of how it was trained."""


@final
@dataclass(frozen=True, kw_only=True)
class ShadowRun:
    """A training run that may stand beside the attacked one."""

    folder: str
    """Its folder."""
    fact: InputFact
    """Its results by digest."""
    inside: tuple[bool, ...]
    """Whether it learnt from each record of the attack, members first."""


def open_shadows(
    spec: MembershipSpec, attacked: AttackedModel, inputs: AttackInputs
) -> tuple[ShadowRun, ...]:
    """Read the shadow runs of an attack, and refuse those that say nothing of its model.

    Guarantees:
        * Whether a shadow learnt from a record is read from the text that it was trained on, which
          is still the same: by text, whatever the ids are.
        * Another base model, other settings, other text, the attacked run itself and a run that is
          named twice are refused.
        * So are halves that follow the members: such a shadow would know who is one. Halves that
          were drawn at random are refused with probability ``UNEVEN`` at most, all together.

    Args:
        spec: The attack.
        attacked: Its model.
        inputs: Its records.

    Returns:
        The runs in the order in which they were named; none if none was.

    Raises:
        EvidenceError: If a folder holds no complete training run, or one that was changed.
        InvalidArgumentError: If a run was trained otherwise, or on halves that follow the members.
        RecordError: If the text of a run is not there any more, or has none of the records.
    """
    opened, seen = [], {fact.sha256 for fact in attacked.inputs if fact.name == "adapter"}
    for folder in spec.shadow_runs:
        path = Path(folder)
        _, train, trained = open_training(path)
        _check_same(spec, attacked, path, train, trained)
        weights = sha256_of(path / ADAPTER / ADAPTER_WEIGHTS)
        if weights in seen:
            raise InvalidArgumentError(
                f"shadow {folder} must be another adapter than the attacked one and than every"
                " other shadow, got one of them again; leave it out."
            )
        seen.add(weights)
        inside = _inside(path, train, trained, attacked, inputs)
        opened.append(ShadowRun(folder=folder, fact=run_fact("shadow", path), inside=inside))
    _check_drawn(opened, inputs)
    return tuple(opened)


def _check_same(
    spec: MembershipSpec,
    attacked: AttackedModel,
    shadow: Path,
    train: TrainSpec,
    trained: TrainResult,
) -> None:
    """Refuse a shadow that was trained otherwise than the attacked model."""
    base = next((fact.sha256 or "" for fact in attacked.inputs if fact.name == "model"), "")
    if trained.model_digest != base:
        raise InvalidArgumentError(
            f"shadow {shadow} must stand on the attacked base model, digest {base[:12]}, got"
            f" {trained.model_digest[:12]}; train it on that model."
        )
    if attacked.run is not None:
        own = attacked.run[0]
        found = [
            (field.name, getattr(train, field.name), getattr(own, field.name))
            for field in fields(TrainSpec)
            if field.name not in _MAY_DIFFER
        ]
        remedy = f"train it with the settings of {Path(spec.run) / 'run.toml'} and another --text."
    elif attacked.has_base:
        mine, its = (_shape(path) for path in (shadow / ADAPTER, Path(spec.run)))
        found = [(name, mine[name], its[name]) for name in _SHAPE]
        remedy = "train it as the attacked adapter was."
    else:
        raise InvalidArgumentError(
            f"run must be a training run or an adapter to have shadow runs, got {attacked.name};"
            " give losses under your own shadow models as a file."
        )
    other = [f"{name} {mine!r} and not {its!r}" for name, mine, its in found if mine != its]
    if other:
        raise InvalidArgumentError(
            f"shadow {shadow} must be trained as the attacked model was, got"
            f" {', '.join(other[:4])}{' ...' if len(other) > 4 else ''}; {remedy}"
        )


def _shape(adapter: Path) -> dict[str, Any]:
    """What an adapter's configuration says of its shape."""
    file = adapter / ADAPTER_CONFIG
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
        found = {name: config.get(name) for name in _SHAPE}
    except (OSError, ValueError, AttributeError) as error:
        raise EvidenceError(f"{file} cannot be read as JSON; save the adapter again.") from error
    targets = found["target_modules"]
    return found | {"target_modules": sorted(targets) if isinstance(targets, list) else targets}


def _inside(
    shadow: Path,
    train: TrainSpec,
    trained: TrainResult,
    attacked: AttackedModel,
    inputs: AttackInputs,
) -> tuple[bool, ...]:
    """Which records of the attack a shadow learnt from, by its own text."""
    try:
        corpus = read_training_corpus(train)
    except InsularError as error:
        raise RecordError(
            f"shadow {shadow} must have its training text at hand, since that says which records it"
            f" learnt from; {error}"
        ) from error
    if corpus.digest != trained.data.sha256:
        raise RecordError(
            f"shadow {shadow} must have the very text at hand that it was trained on, got a"
            f" {train.text} that was changed since; put the old one back."
        )
    rows = prepare_text(corpus, attacked.decoder.encode, train).rows
    kept = {row.id for row in rows} | {row.id.rpartition("#")[0] for row in rows}  # of windows
    learnt = {plain_text(record.text) for record in corpus.records if record.id in kept}
    found = tuple(plain_text(record.text) in learnt for record in _candidates(inputs))
    if not any(found):
        raise RecordError(
            f"shadow {shadow} must have learnt from some of the records, got another text,"
            f" {train.text}, with none of them; train it on a random half of both files."
        )
    return found


def _check_drawn(shadows: Sequence[ShadowRun], inputs: AttackInputs) -> None:
    """Refuse halves that follow the members."""
    units: dict[str, list[int]] = {}
    for place, record in enumerate(_candidates(inputs)):
        units.setdefault(record.owner, []).append(place)
    n_members = len(inputs.members.texts)
    member = np.array([places[0] < n_members for places in units.values()])
    for shadow in shadows:
        inside = np.array([any(shadow.inside[i] for i in places) for places in units.values()])
        if drawn_alike(inside, member) < UNEVEN / len(shadows):
            raise InvalidArgumentError(
                f"shadow {shadow.folder} must have learnt from members and non-members alike, got"
                f" {int((inside & member).sum())} of {int(member.sum())} members and"
                f" {int((inside & ~member).sum())} of {int((~member).sum())} others: it would know"
                " who is a member. Train it on a half of both files that was drawn at random."
            )


def _candidates(inputs: AttackInputs) -> tuple[Record, ...]:
    """All records of the attack, members first."""
    return (*inputs.members.texts, *inputs.non_members.texts)

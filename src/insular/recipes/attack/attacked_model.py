"""The model that an attack questions: a training run, an adapter on its base, or a plain model."""

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from insular.accounting import Event, Relation, Unit
from insular.errors import EvidenceError, InvalidArgumentError, ModelError
from insular.evidence import InputFact, sha256_of
from insular.recipes.audit.spec import PACKAGED_MODELS
from insular.recipes.run_folder import (
    run_fact,
)
from insular.recipes.train.results import TrainResult
from insular.recipes.train.spec import TrainSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from insular.models.loading import Decoder

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"


@final
@dataclass(frozen=True, kw_only=True)
class RunClaim:
    """What a training run promises for its release."""

    event: Event
    """What its executed log says ran: the whole trade-off curve follows from it."""
    epsilon: float
    """In nats, finite."""
    delta: float
    """From 0 to 1."""
    unit: Unit
    """Whose presence is hidden."""
    owner_field: str
    """Field that names the owner; empty where each record is its own unit."""
    relation: Relation
    """Neighbouring data sets."""
    caveat: str = ""
    """Why its epsilon is only an estimate, such as seeded noise; empty for a guarantee."""


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttackedModel:
    """A model in evaluation mode, its base where it has one, and what is promised for it."""

    name: str
    """What is attacked, for a report."""
    decoder: "Decoder"
    """The model with its adapter in place; nothing in it is trainable."""
    inputs: tuple[InputFact, ...]
    """Base model, adapter and training run by digest, those that there are."""
    claim: RunClaim | None = None
    """What its training run promises; None where there is none, or it promises nothing."""
    run: tuple[TrainSpec, TrainResult] | None = None
    """The training run: its settings and what it was."""
    has_base: bool = False
    """Whether it is an adapter, so that ``base`` can take it away."""

    @contextmanager
    def base(self) -> Iterator["Decoder"]:
        """The same decoder without its adapter, inside a ``with``.

        Guarantees:
            * The adapter is back afterwards, whatever happened.

        Yields:
            The decoder, which computes as its base model.

        Raises:
            InvalidArgumentError: If it has no adapter.
        """
        if not self.has_base:
            raise InvalidArgumentError(
                f"{self.name} must have an adapter to be compared with its base, got a plain model;"
                " name a reference model."
            )
        with self.decoder.model.disable_adapter():
            yield self.decoder


def open_attacked(
    run: Path,
    *,
    model: str = "",
    device: str = "cpu",
    progress: "Callable[[str], None] | None" = None,
) -> AttackedModel:
    """Load what is attacked: a training run's adapter, any PEFT adapter, or a whole model.

    A folder with ``manifest.json`` is a training run; one with ``adapter_config.json`` is an
    adapter; all else is a model as ``load_decoder`` names it. The base computes in float32, however
    the frozen layers computed in training.

    Guarantees:
        * A training run is complete, its files are those that it wrote, and its adapter stands on
          the very weights that it was trained on.
        * Every tensor of the adapter is in the model bit for bit.

    Args:
        run: The folder.
        model: Base model of an adapter; empty for the one that run or adapter name.
        device: Where it computes.
        progress: Called with a line before long steps.

    Returns:
        The model.

    Raises:
        EvidenceError: If the training run is incomplete or was changed, or the base is another.
        ModelError: If base or adapter cannot be loaded.
        InvalidArgumentError: If ``model`` is given for what is no adapter.
    """
    if (run / "manifest.json").is_file():
        return _of_run(run, model=model, device=device, progress=progress)
    if (run / ADAPTER_CONFIG).is_file():
        base = model or _named_base(run / ADAPTER_CONFIG)
        decoder, facts = _with_adapter(run, base, device=device, progress=progress)
        return AttackedModel(
            name=f"adapter {run} on {base}", decoder=decoder, inputs=facts, has_base=True
        )
    if model:
        raise InvalidArgumentError(
            f"model must be empty for a whole model, got model={model!r} and {run}, which holds no"
            f" {ADAPTER_CONFIG}; name the adapter's folder, or leave it out."
        )
    from insular.models.loading import load_decoder

    decoder = load_decoder(str(run), device=device, progress=progress)
    fact = InputFact(name="model", source=str(run), sha256=decoder.digest)
    return AttackedModel(name=f"model {run}", decoder=decoder, inputs=(fact,))


def _of_run(
    run: Path, *, model: str, device: str, progress: "Callable[[str], None] | None"
) -> AttackedModel:
    """The adapter of a training run, with the run's promise."""
    from insular.recipes.attack.training.run import open_training
    from insular.recipes.train.run import ADAPTER

    _, spec, trained = open_training(run)
    base = model or spec.model
    decoder, facts = _with_adapter(run / ADAPTER, base, device=device, progress=progress)
    if decoder.digest != trained.model_digest:
        raise EvidenceError(
            f"model must be the one that {run} trained on, digest {trained.model_digest[:12]}, got"
            f" {base} with digest {decoder.digest[:12]}; name the right one with --model."
        )
    source = run_fact("training", run)
    return AttackedModel(
        name=f"training run {run}",
        decoder=decoder,
        inputs=(source, *facts),
        claim=_claim(trained),
        run=(spec, trained),
        has_base=True,
    )


def _claim(trained: TrainResult) -> RunClaim | None:
    """The promise of a run; none where its epsilon is infinite, or what ran is not the plan."""
    if not trained.as_planned or not math.isfinite(trained.epsilon):
        return None
    return RunClaim(
        event=trained.executed.event,
        epsilon=trained.epsilon,
        delta=trained.delta,
        unit=trained.unit,
        owner_field=trained.owner_field,
        relation=trained.relation,
        caveat=trained.costs[0].caveat,
    )


def _with_adapter(
    folder: Path, base: str, *, device: str, progress: "Callable[[str], None] | None"
) -> "tuple[Decoder, tuple[InputFact, ...]]":
    """A base model with a saved adapter in it, and both by digest."""
    from insular.models.adapter import read_adapter
    from insular.models.loading import load_decoder

    weights = folder / ADAPTER_WEIGHTS
    if not weights.is_file():
        raise ModelError(f"{folder} must hold {ADAPTER_WEIGHTS}, and does not; save it again.")
    decoder = load_decoder(base, device=device, progress=progress)
    adapted = _adapted(folder, decoder.model, base=base)
    read_adapter(folder, adapted)  # refuses tensors that are not in the model
    facts = (
        InputFact(name="model", source=base, sha256=decoder.digest),
        InputFact(name="adapter", source=str(folder), sha256=sha256_of(weights)),
    )
    return replace(decoder, model=adapted.eval()), facts


def _adapted(folder: Path, model: Any, *, base: str) -> Any:
    """PEFT's model around the base."""
    from peft import PeftModel

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="fan_in_fan_out is set to")
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
        warnings.filterwarnings("ignore", message="Found missing adapter keys")
        try:
            return PeftModel.from_pretrained(model, str(folder), is_trainable=False)
        except (RuntimeError, ValueError, KeyError, TypeError) as error:
            reason = str(error).splitlines()[0][:160]
            raise ModelError(
                f"adapter {folder} does not fit the base model {base}: {reason}; name its own base"
                " with --model."
            ) from error


def _named_base(config: Path) -> str:
    """The base model that an adapter names, under the alias by which it can be loaded here."""
    try:
        named = json.loads(config.read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError, AttributeError) as error:
        raise ModelError(f"{config} cannot be read as JSON; save the adapter again.") from error
    if not named:
        raise ModelError(f"{config} names no base model; name it with --model.")
    aliases = {public: alias for alias, public in PACKAGED_MODELS.items()}
    return aliases.get(str(named), str(named))

"""Everything that one start of a training run works with, made of its settings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast, final

from torch import nn

from insular.errors import InvalidArgumentError
from insular.evidence import InputFact
from insular.mechanisms.keystream import Keystream, SecureStream, SeededStream
from insular.models.spec import LoraSpec
from insular.models.structure import trainable
from insular.recipes.adapted import AdaptedModel, build_adapted
from insular.recipes.audit.spec import StackName
from insular.recipes.text import check_context
from insular.recipes.train.data import TrainingText, prepare_text, read_training_corpus
from insular.recipes.train.plan import Plan, influence_of, plan_run
from insular.recipes.train.spec import TrainSpec
from insular.recipes.train.utility import public_records
from insular.records import TokenisedRecord
from insular.training.batching import Batching, Units
from insular.training.clipping import FlatClipping
from insular.training.contributions import ClippedSum, clipped_sum
from insular.training.gradients import GradientEngine, HookGradients
from insular.training.noise import GaussianNoise
from insular.training.optimisers import DpAdamW, DpSgd, Optimiser
from insular.training.sampling import (
    FullBatchSampler,
    PoissonSampler,
    Sampler,
    ShuffledSampler,
    TruncatedPoissonSampler,
)
from insular.training.schedules import learning_rate_at

SEATS = 4
"""Records that may share a forward on a coupled backbone whose price was accepted."""


@final
@dataclass(frozen=True, kw_only=True)
class Session:
    """The objects of one start of a run."""

    spec: TrainSpec
    """Its settings."""
    adapted: AdaptedModel
    """The model."""
    text: TrainingText
    """What it learns from."""
    public: tuple[TokenisedRecord, ...]
    """What it is measured on."""
    plan: Plan
    """What it will do and cost."""
    sampler: Sampler
    """Who is in a step."""
    noise: GaussianNoise
    """What hides one unit."""

    @property
    def units(self) -> Units:
        """What a draw's numbers stand for."""
        if self.spec.sample == "record":
            return tuple((row,) for row in self.text.rows)
        return self.text.units

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The trainable tensors."""
        return trainable(self.adapted.model)

    @property
    def inputs(self) -> tuple[InputFact, ...]:
        """Text and model for the manifest."""
        decoder = self.adapted.decoder
        model = InputFact(name="model", source=self.spec.model, sha256=decoder.digest)
        return (self.text.fact, model)

    def clipped_sum(self) -> Callable[[Units], ClippedSum]:
        """Per-record gradients of drawn units, clipped and added, in the audited modes.

        Returns:
            A function of the units.
        """
        add = clipped_sum_of(
            self.spec,
            self.adapted.model,
            engine=HookGradients(),
            places={record.id: place for place, record in enumerate(self.text.rows)},
            pad_token_id=self.adapted.decoder.pad_token_id,
        )

        def run(units: Units) -> ClippedSum:
            self.adapted.set_modes()  # whatever was called since may have changed an operator
            return add(units)

        return run

    def optimiser(self) -> Optimiser:
        """The optimiser over the trainable tensors, at rest.

        Returns:
            It.
        """
        if self.spec.optimiser == "dp-sgd":
            return DpSgd(self.parameters)
        return DpAdamW(
            self.parameters,
            noise_std=self.plan.run.noise_std,
            divisor=self.plan.run.divisor,
            weight_decay=self.spec.weight_decay,
        )

    def learning_rate(self, step: int) -> float:
        """The rate of a step."""
        spec = self.spec
        return learning_rate_at(
            step,
            schedule=spec.schedule,
            peak=spec.learning_rate,
            steps=spec.steps,
            warmup_steps=spec.warmup_steps,
        )


def open_session(spec: TrainSpec, *, progress: Callable[[str], None]) -> Session:
    """Read the text, plan the run, and build the model, in that order: what is cheap fails first.

    Args:
        spec: The run.
        progress: Called before long steps.

    Returns:
        The session; nothing was drawn yet.

    Raises:
        InvalidArgumentError: If the settings do not fit the text or the model.
    """
    progress(f"reading {spec.text}")
    corpus = read_training_corpus(spec, progress=progress)
    progress(f"loading {spec.model}")
    adapted = build_adapted(
        cast(StackName, spec.backbone),
        model=spec.model,
        lora=LoraSpec(rank=spec.lora_rank, targets=spec.lora_targets, seed=spec.seed),
        device=spec.device,
        attention=spec.attention,
        check=lambda decoder: check_context(spec.tokens, context_tokens=decoder.context_tokens),
        progress=progress,
    )
    text = prepare_text(corpus, adapted.decoder.encode, spec)
    stream = SecureStream() if spec.noise_seed < 0 else SeededStream(spec.noise_seed)
    sampler = _sampler(spec, text, stream)
    progress("calibrating the noise")
    plan = plan_run(
        spec,
        sampler.facts,
        n_units=spec.public_units or text.data.n_units,
        influence=influence_of(seats_of(spec)) if spec.accept_coupling else 1.0,
    )
    return Session(
        spec=spec,
        adapted=adapted,
        text=text,
        public=public_records(spec, corpus, adapted.decoder.encode, progress=progress),
        plan=plan,
        sampler=sampler,
        noise=GaussianNoise(stream),
    )


def seats_of(spec: TrainSpec) -> int:
    """Records that may share a forward: any, one, or those of fixed groups.

    Args:
        spec: The run.

    Returns:
        0 for any; 1 for the singleton backbone; ``SEATS`` where coupling was accepted.
    """
    if spec.backbone == "singleton":
        return 1
    return SEATS if spec.accept_coupling else 0


def clipped_sum_of(
    spec: TrainSpec,
    model: nn.Module,
    *,
    engine: GradientEngine,
    places: Mapping[str, int],
    pad_token_id: int,
) -> Callable[[Units], ClippedSum]:
    """How a run clips and adds, on any model.

    Args:
        spec: The run.
        model: Whose trainable parameters have the gradients.
        engine: Computes per-record gradients.
        places: Record id to its fixed place in the corpus.
        pad_token_id: Token id that fills up.

    Returns:
        A function of the units.
    """
    batching = Batching(
        max_tokens=spec.physical_tokens,
        pad_token_id=pad_token_id,
        seats=seats_of(spec),
        places=places,
        device=spec.device,
    )
    clipping = FlatClipping(clip_norm=spec.clip_norm)
    return partial(clipped_sum, model, engine=engine, clipping=clipping, batching=batching)


def _sampler(spec: TrainSpec, text: TrainingText, stream: Keystream) -> Sampler:
    """The sampler over units, or over rows."""
    n_drawn_from = len(text.rows) if spec.sample == "record" else len(text.units)
    if spec.sampler in ("truncated_poisson", "shuffled") and spec.public_units not in (
        0,
        n_drawn_from,
    ):
        raise InvalidArgumentError(
            f"public_units must be 0 or the {n_drawn_from} units that there are for "
            f"{spec.sampler}, got public_units={spec.public_units}: its mechanism depends on their "
            "true number, which is then public."
        )
    public = spec.public_units * (spec.records_per_owner if spec.sample == "record" else 1)
    return sampler_of(spec, n_drawn_from, public=public or n_drawn_from, stream=stream)


def sampler_of(spec: TrainSpec, n_drawn_from: int, *, public: int, stream: Keystream) -> Sampler:
    """A run's sampler.

    Args:
        spec: The run.
        n_drawn_from: Units, or records, that there are.
        public: How many there are said to be: the rate depends on it.
        stream: Where random words come from.

    Returns:
        The sampler.

    Raises:
        InvalidArgumentError: If a step wants more than there are.
    """
    if spec.sampler == "full_batch":
        return FullBatchSampler(n_drawn_from, public_n_units=public)
    if spec.batch > public:
        raise InvalidArgumentError(
            f"batch must be at most the number of units to draw from, got batch={spec.batch} and "
            f"{public} units; lower --batch, or use --sampler full_batch."
        )
    if spec.sampler == "shuffled":
        return ShuffledSampler(n_drawn_from, batch_size=spec.batch, stream=stream)
    rate = spec.batch / public
    if spec.sampler == "truncated_poisson":
        return TruncatedPoissonSampler(
            n_drawn_from, sampling_prob=rate, max_batch_size=spec.max_batch, stream=stream
        )
    return PoissonSampler(
        n_drawn_from,
        sampling_prob=rate,
        public_n_units=public,
        records_per_unit=spec.records_per_owner if spec.sample == "record" else None,
        stream=stream,
    )

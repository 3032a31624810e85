"""What one private training run is asked to do, as one TOML file can say it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.errors import InvalidArgumentError
from insular.recipes.audit.spec import STACKS

Backbone = Literal["float32", "bf16", "record-owned", "threshold-0", "nf4", "llm-int8", "singleton"]
BACKBONES: dict[Backbone, str] = {
    "float32": STACKS["float32"],
    "bf16": STACKS["bf16"],
    "record-owned": STACKS["record-owned"],
    "threshold-0": STACKS["threshold-0"],
    "nf4": STACKS["nf4"],
    "singleton": STACKS["singleton"],
    "llm-int8": STACKS["llm-int8"] + "; couples records: refused unless accepted in writing",
}
"""Each backbone that ``insular train`` can build, with one line on it."""

SAMPLERS = ("poisson", "truncated_poisson", "shuffled", "full_batch")
OPTIMISERS = ("dp-adamw", "dp-sgd")
SCHEDULES = ("constant", "linear", "cosine")


@final
@dataclass(frozen=True, kw_only=True)
class TrainSpec:
    """One run of ``insular train``. Everything here is public; the text itself is not."""

    model: str = "smollm2"
    """Alias, GGUF file, folder or hub name."""
    backbone: str = "bf16"
    """How the frozen layers compute."""
    text: str = ""
    """File of records to learn from, or a packaged text."""
    text_field: str = "text"
    """Field of the text, in formats that have fields."""
    id_field: str = ""
    """Field of the record id, or empty for positions."""
    encoding: str = "utf-8"
    """Encoding of the file."""
    unit: str = "record"
    """What is protected: ``record``, or the field that names each record's owner (``owner`` for a
    packaged text)."""
    missing_owner: str = "error"
    """Records without an owner: ``error``, ``drop``, or ``own`` (each its own owner)."""
    tokens: int = 64
    """Longest record, in tokens."""
    too_long: str = "truncate"
    """Longer records: ``error``, ``truncate`` or ``window``."""
    relation: Literal["add_or_remove_one", "replace_one"] = "add_or_remove_one"
    """Neighbouring data sets."""
    epsilon: float = 0.0
    """Target, in nats; 0 takes ``noise_multiplier`` as given."""
    delta: float = 0.0
    """Delta; 0 takes the largest power of ten at most a tenth of one over the units."""
    noise_multiplier: float = 0.0
    """Noise standard deviation over the sensitivity; 0 calibrates it to ``epsilon``."""
    sampler: str = "poisson"
    """How the units of a step are drawn."""
    sample: str = "unit"
    """What is drawn: ``unit``, or ``record`` with owners protected as groups."""
    batch: int = 16
    """Expected units (records with ``sample = "record"``) in a step: the public divisor."""
    max_batch: int = 0
    """Most units in a step, for ``truncated_poisson``; 0 for the others."""
    public_units: int = 0
    """Public number of units, for rate and delta; 0 declares the number in the text public."""
    records_per_owner: int = 0
    """Most records of one owner that are used at all; 0 for no limit."""
    steps: int = 200
    """Optimiser steps."""
    clip_norm: float = 0.1
    """Bound C of a unit's contribution."""
    optimiser: str = "dp-adamw"
    """``dp-adamw`` or ``dp-sgd``."""
    learning_rate: float = 1e-3
    """At its peak."""
    schedule: str = "constant"
    """``constant``, ``linear`` or ``cosine`` decay."""
    warmup_steps: int = 0
    """Steps over which the rate rises to its peak."""
    weight_decay: float = 0.0
    """Decoupled weight decay, for ``dp-adamw``."""
    lora_rank: int = 8
    """Rank of the adapters."""
    lora_targets: tuple[str, ...] = ()
    """Layers with adapters; empty for the query and value projections."""
    physical_tokens: int = 2048
    """Most tokens, padding included, of one forward."""
    validation: str = "wikipedia"
    """Public text to measure on: packaged, a file that you declare public, or ``none``."""
    validation_records: int = 16
    """Records of it."""
    ledger: str = ""
    """Ledger to reserve in; empty for none."""
    population: str = ""
    """Population that is charged."""
    release: str = ""
    """Name of the release in the ledger; empty for the name of the run's folder."""
    accept_coupling: str = ""
    """Why a coupled backbone may be used at the price of (2m + 1)C; empty refuses it."""
    attention: str = "eager"
    """Attention kernel of transformers: ``eager`` or ``sdpa``."""
    device: str = "cpu"
    """Where it runs."""
    threads: int = 0
    """Intra-operation threads; 0 for all cores."""
    seed: int = 0
    """Seed of the adapters."""
    noise_seed: int = -1
    """Seed of draws and noise, for tests: nothing is protected. -1 for the secure generator."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        _check.every(self._rules())

    @property
    def by_owner(self) -> bool:
        """Whether owners are protected, rather than records."""
        return self.unit != "record"

    def _rules(self) -> tuple[Callable[[], object], ...]:
        """Every rule; each raises where it is broken."""
        from insular.accounting import RELATIONS  # not needed to show the options of a command

        return (
            lambda: _check.one_of(BACKBONES, backbone=self.backbone),
            lambda: _check.one_of(("error", "drop", "own"), missing_owner=self.missing_owner),
            lambda: _check.one_of(("error", "truncate", "window"), too_long=self.too_long),
            lambda: _check.one_of(RELATIONS, relation=self.relation),
            lambda: _check.one_of(SAMPLERS, sampler=self.sampler),
            lambda: _check.one_of(("unit", "record"), sample=self.sample),
            lambda: _check.one_of(OPTIMISERS, optimiser=self.optimiser),
            lambda: _check.one_of(SCHEDULES, schedule=self.schedule),
            lambda: _check.one_of(("eager", "sdpa"), attention=self.attention),
            lambda: _check.at_least(2, tokens=self.tokens),
            lambda: _check.at_least(1, batch=self.batch, steps=self.steps),
            lambda: _check.at_least(
                1, lora_rank=self.lora_rank, physical_tokens=self.physical_tokens
            ),
            lambda: _check.at_least(
                0,
                max_batch=self.max_batch,
                public_units=self.public_units,
                records_per_owner=self.records_per_owner,
                warmup_steps=self.warmup_steps,
                validation_records=self.validation_records,
                threads=self.threads,
                seed=self.seed,
            ),
            lambda: _check.at_least(-1, noise_seed=self.noise_seed),
            lambda: _check.positive_finite(
                clip_norm=self.clip_norm, learning_rate=self.learning_rate
            ),
            lambda: _check.non_negative_finite(
                epsilon=self.epsilon,
                noise_multiplier=self.noise_multiplier,
                weight_decay=self.weight_decay,
            ),
            lambda: _check.probability(delta=self.delta),
            self._check_text,
            self._check_noise,
            self._check_sampling,
            self._check_coupling,
            self._check_ledger,
        )

    def _check_text(self) -> None:
        """A text must be named."""
        if not self.text:
            raise InvalidArgumentError("text must name a file of records, got none.")
        if self.physical_tokens < self.tokens:
            raise InvalidArgumentError(
                "physical_tokens must hold one record of tokens, got "
                f"physical_tokens={self.physical_tokens} and tokens={self.tokens}; raise it."
            )

    def _check_noise(self) -> None:
        """Exactly one of target and noise is given."""
        if (self.epsilon > 0) == (self.noise_multiplier > 0):
            raise InvalidArgumentError(
                "exactly one of epsilon and noise_multiplier must be > 0, got "
                f"epsilon={self.epsilon!r} and noise_multiplier={self.noise_multiplier!r}; "
                "give the epsilon that you can promise."
            )

    def _check_sampling(self) -> None:
        """Settings of the sampler belong together."""
        if (self.sampler == "truncated_poisson") != (self.max_batch > 0):
            raise InvalidArgumentError(
                "max_batch must be > 0 for truncated_poisson and 0 otherwise, got "
                f"max_batch={self.max_batch} for {self.sampler}."
            )
        if self.sampler == "shuffled" and self.relation != "replace_one":
            raise InvalidArgumentError(
                "relation must be replace_one for the shuffled sampler, got "
                f"relation={self.relation!r}: adding a unit moves every later batch."
            )
        if self.sample == "record" and not (self.by_owner and self.records_per_owner):
            raise InvalidArgumentError(
                "sample='record' must have a unit of owners and records_per_owner > 0, got "
                f"unit={self.unit!r} and records_per_owner={self.records_per_owner}; it protects "
                "each owner as a group of at most that many records."
            )
        if self.sample == "record" and self.sampler != "poisson":
            raise InvalidArgumentError(
                f"sampler must be poisson for sample='record', got sampler={self.sampler!r}."
            )

    def _check_coupling(self) -> None:
        """Only a coupled backbone, with records as units, can have its price accepted."""
        if self.accept_coupling and (self.backbone != "llm-int8" or self.by_owner):
            raise InvalidArgumentError(
                "accept_coupling must be empty unless backbone is llm-int8 and unit is record, got "
                f"backbone={self.backbone!r} and unit={self.unit!r}; leave it out."
            )

    def _check_ledger(self) -> None:
        """A ledger needs a population, and the other way round."""
        if bool(self.ledger) != bool(self.population):
            raise InvalidArgumentError(
                "ledger and population must be given together, got "
                f"ledger={self.ledger!r} and population={self.population!r}."
            )
        if self.ledger and self.noise_seed >= 0:
            raise InvalidArgumentError(
                "noise_seed must be -1 with a ledger, got "
                f"noise_seed={self.noise_seed}: whoever knows the seed takes the noise away."
            )

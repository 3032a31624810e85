"""What one audit run is asked to do, as one TOML file can say it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, final

from insular import _check

StackName = Literal[
    "llm-int8",
    "llm-int8-train",
    "threshold-0",
    "record-owned",
    "token-owned",
    "calibrated",
    "nf4",
    "bf16",
    "float32",
    "singleton",
]
STACKS: dict[StackName, str] = {
    "llm-int8": "bitsandbytes LLM.int8, threshold 6, one batch: outliers by the whole batch",
    "llm-int8-train": "the same layers in training mode: on CPU another operator, MatMul8bitFp",
    "threshold-0": "bitsandbytes int8 without an outlier path",
    "record-owned": "insular's int8: outliers by the record that owns the row",
    "token-owned": "insular's int8: outliers by row",
    "calibrated": "insular's int8: outlier columns fixed beforehand on public text",
    "nf4": "bitsandbytes NF4 weights, float32 arithmetic",
    "bf16": "bfloat16 weights and arithmetic",
    "float32": "no quantisation",
    "singleton": "bitsandbytes LLM.int8, threshold 6, one record a forward",
}
"""Each stack that ``insular audit`` can build, with one line on it."""

REPAIRS: tuple[StackName, ...] = ("record-owned", "threshold-0", "nf4", "bf16", "singleton")
"""What is tried in place of the stack under test."""

Part = Literal["isolation", "census", "sensitivity", "localisation"]
PARTS: dict[Part, str] = {
    "isolation": "does anything move? Always run: it gives the verdict",
    "census": "how often records decide each other's precision; int8 only",
    "sensitivity": "how far one added record moves the clipped sum, and at what price",
    "localisation": "which modules and columns it comes from; needs sensitivity",
}
"""The parts of an audit, in the order of the page."""

ENGINES = ("hooks", "opacus", "func", "loop")
PACKAGED_TEXTS = ("wikipedia", "shakespeare")
PACKAGED_MODELS = {"smollm2": "HuggingFaceTB/SmolLM2-135M-Instruct"}
"""Aliases, with the names by which others know these models."""


@final
@dataclass(frozen=True, kw_only=True)
class AuditSpec:
    """One run of ``insular audit``. Everything here is public; the text itself is not."""

    model: str = "smollm2"
    """Alias, GGUF file, folder or hub name."""
    stack: str = "llm-int8"
    """The stack under test."""
    subject: str = ""
    """``module:factory`` of a callable under test instead of a built stack."""
    text: str = "wikipedia"
    """A packaged text, or a file of records."""
    text_field: str = "text"
    """Field of the text, in formats that have fields."""
    id_field: str = ""
    """Field of the record id, or empty for positions."""
    owner_field: str = ""
    """Field of the owner, or empty where each record is its own unit."""
    encoding: str = "utf-8"
    """Encoding of the file."""
    batch: int = 8
    """Records in the base batch."""
    tokens: int = 56
    """Longest record, in tokens; a longer one is cut, and counted."""
    clip_norm: float = 0.1
    """Bound C of the clipped gradients."""
    repairs: tuple[str, ...] = REPAIRS
    """Stacks to try in place of the one under test."""
    parts: tuple[str, ...] = tuple(PARTS)
    """Parts to run; ``isolation`` always runs."""
    candidates: int = 32
    """Most records that the sensitivity screen adds, one at a time."""
    noise_multiplier: float = 1.0
    """Noise of the run that the price is for: its standard deviation over C."""
    sampling_prob: float = 0.01
    """Poisson rate of that run."""
    steps: int = 600
    """Steps of that run."""
    delta: float = 1e-5
    """Delta of every epsilon."""
    keep_gradients: str = "all"
    """Gradients to save: ``all``, or ``pair`` for the selected pair alone."""
    gradients: str = "hooks"
    """What computes per-record gradients."""
    loss: str = "record_mean"
    """``record_mean``, or the batch-wide ``token_mean`` of Hugging Face models."""
    padding_side: str = "right"
    """``left`` or ``right``."""
    attention: str = "eager"
    """Attention kernel of transformers: ``eager`` or ``sdpa``."""
    lora_rank: int = 8
    """Rank of the adapters."""
    lora_targets: tuple[str, ...] = ()
    """Layers with adapters; empty for the query and value projections."""
    lora_b_std: float = 0.0
    """Standard deviation of B at the start; at 0 only B has a gradient."""
    device: str = "cpu"
    """Where the stack runs."""
    threads: int = 1
    """Intra-operation threads of each worker."""
    seed: int = 0
    """Seed of the adapters and of every evaluation."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        _check.every(self._rules())

    def _rules(self) -> tuple[Callable[[], object], ...]:
        """Every rule; each raises where it is broken."""
        return (
            lambda: _check.one_of(STACKS, stack=self.stack),
            lambda: _check.one_of(ENGINES, gradients=self.gradients),
            lambda: _check.one_of(("record_mean", "token_mean"), loss=self.loss),
            lambda: _check.one_of(("left", "right"), padding_side=self.padding_side),
            lambda: _check.one_of(("eager", "sdpa"), attention=self.attention),
            lambda: _check.one_of(("all", "pair"), keep_gradients=self.keep_gradients),
            lambda: _check.at_least(2, batch=self.batch),
            lambda: _check.at_least(1, candidates=self.candidates, steps=self.steps),
            lambda: _check.positive_finite(noise_multiplier=self.noise_multiplier),
            lambda: _check.probability(sampling_prob=self.sampling_prob, delta=self.delta),
            lambda: _check.at_least(4, tokens=self.tokens),
            lambda: _check.positive_finite(clip_norm=self.clip_norm),
            lambda: _check.at_least(1, lora_rank=self.lora_rank, threads=self.threads),
            lambda: _check.non_negative_finite(lora_b_std=self.lora_b_std),
            lambda: _check.at_least(0, seed=self.seed),
            *(lambda name=name: _check.one_of(STACKS, repairs=name) for name in self.repairs),
            *(lambda name=name: _check.one_of(PARTS, parts=name) for name in self.parts),
        )

    def has(self, part: Part) -> bool:
        """Whether a part is to run; localisation needs the pair that sensitivity selects."""
        if part == "localisation":
            return part in self.parts and "sensitivity" in self.parts
        return part in self.parts or part == "isolation"

"""What ``insular hidden invert`` is asked to do, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.hidden.inversion.spec import PriorUse
from insular.hidden.states.storage_spec import STORAGE_FORMATS, StorageFormat
from insular.recipes.hidden.spec import MECHANISM_KINDS, NO_MECHANISM

ALL_MECHANISMS = "all"


@final
@dataclass(frozen=True, kw_only=True)
class HiddenInversionSpec:
    """One run of ``insular hidden invert``."""

    model: str = "smollm2"
    """Alias, folder, GGUF file or hub name."""
    layers: tuple[int, ...] = (3,)
    """Layers whose states are inverted, each alone: outputs of these blocks, from 0."""
    text: str = "wikipedia"
    """Packaged text or file that prompts are taken from."""
    text_field: str = "text"
    """Column with the text."""
    id_field: str = ""
    """Column with ids; empty for line numbers."""
    encoding: str = "utf-8"
    """Of a text file."""
    states: str = ""
    """A safetensors file of stored states to invert instead, one matrix a prompt; a vector of
    token ids named tokens:NAME is the truth of matrix NAME."""
    prompts: int = 50
    """Prompts that are inverted."""
    tokens: int = 16
    """Most tokens of a prompt, from its start; shorter texts are shorter prompts."""
    special: bool = False
    """Put the tokenizer's start and end tokens around each prompt, to be recovered too."""
    mechanisms: tuple[str, ...] = (NO_MECHANISM,)
    """Release mechanisms that are applied first, each alone; none for clean states, all for none
    and every mechanism."""
    kl_nats: float = 0.3
    """Measured KL that every mechanism is scaled to."""
    release: str = ""
    """A file of insular hidden fit to apply instead of fitting a mechanism here."""
    fit: int = 256
    """Prompts that mechanisms are fitted on; none of them is inverted."""
    calibration: int = 64
    """Prompts on which they are scaled; none of them is inverted."""
    rank: int = 128
    """Dimensions of a low-rank mechanism."""
    storages: tuple[StorageFormat, ...] = ("float32",)
    """How states are kept, each alone: float32, bf16, int8, int4."""
    every: int = 1
    """Positions 0, g, 2 g, ... are kept."""
    prior: PriorUse = "auto"
    """When next-token probabilities are asked for: auto, always, never."""
    beam: int = 8
    """Most hypotheses that are carried on."""
    max_candidates: int = 16_384
    """Most tokens that are tried at one position."""
    show_text: bool = False
    """Write recovered and true text into results and page."""
    significance: float = 0.05
    """Error probability of each interval."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What the model computes in."""
    attention: str = "eager"
    """Attention kernel of transformers: ``eager`` or ``sdpa``."""
    device: str = "cpu"
    """Where the model runs."""
    seed: int = 0
    """Labels, noise and intervals follow from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        _check.every(
            (
                lambda: _check.at_least(0, seed=self.seed),
                lambda: _check.at_least(
                    1,
                    prompts=self.prompts,
                    every=self.every,
                    beam=self.beam,
                    tokens=self.tokens,
                    rank=self.rank,
                    layers=len(self.layers),
                    mechanisms=len(self.mechanisms),
                    storages=len(self.storages),
                ),
                lambda: _check.at_least(2, fit=self.fit, calibration=self.calibration),
                lambda: _check.at_least(64, max_candidates=self.max_candidates),
                lambda: _check.positive_finite(kl_nats=self.kl_nats),
                lambda: _check.one_of(("auto", "always", "never"), prior=self.prior),
                lambda: _check.one_of(("float32", "bfloat16"), dtype=self.dtype),
                lambda: _check.one_of(("eager", "sdpa"), attention=self.attention),
                lambda: _check.probability(significance=self.significance),
                *(lambda layer=layer: _check.at_least(0, layers=layer) for layer in self.layers),
                *(
                    lambda name=name: _check.one_of(
                        (NO_MECHANISM, ALL_MECHANISMS, *MECHANISM_KINDS), mechanisms=name
                    )
                    for name in self.mechanisms
                ),
                *(
                    lambda name=name: _check.one_of(STORAGE_FORMATS, storages=name)
                    for name in self.storages
                ),
            ),
            also=self._disagreements(),
        )

    @property
    def chosen(self) -> tuple[str, ...]:
        """The mechanisms that run, none for clean states among them."""
        if self.mechanisms == (ALL_MECHANISMS,):
            return (NO_MECHANISM, *MECHANISM_KINDS)
        return self.mechanisms

    @property
    def fits(self) -> bool:
        """Whether a mechanism is fitted here, on prompts that are not inverted."""
        return self.chosen != (NO_MECHANISM,)

    def _disagreements(self) -> list[str]:
        """Settings that break no rule alone, but do together."""
        found = [
            f"{name} must be different ones, got one twice."
            for name in ("layers", "mechanisms", "storages")
            if len(set(getattr(self, name))) < len(getattr(self, name))
        ]
        if ALL_MECHANISMS in self.mechanisms and len(self.mechanisms) > 1:
            found.append("mechanisms must be all alone, or names, got both; leave one out.")
        if self.release and self.fits:
            found.append(
                f"mechanisms must be none with release, got mechanisms={self.mechanisms!r}; name"
                " one of them."
            )
        if self.states and self.fits:
            found.append(
                f"mechanisms must be none with states, to which theirs was applied before, got"
                f" mechanisms={self.mechanisms!r}; give --release."
            )
        for name in ("states", "release"):
            if getattr(self, name) and len(self.layers) != 1:
                found.append(f"layers must be one with {name}, got {len(self.layers)}.")
        if self.special and self.states:
            found.append("special must be off with states, whose prompts are given.")
        if self.significance in (0, 1):
            found.append(
                f"significance must be above 0 and below 1, got significance={self.significance!r}."
            )
        return found

"""What ``insular hidden invert`` is asked to do, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular import _check
from insular.hidden.inversion_spec import PriorUse
from insular.hidden.storage_spec import STORAGE_FORMATS, StorageFormat
from insular.recipes.hidden_spec import MECHANISM_KINDS

NO_MECHANISM = "none"


@final
@dataclass(frozen=True, kw_only=True)
class HiddenInversionSpec:
    """One run of ``insular hidden invert``."""

    model: str = "smollm2"
    """Alias, folder, GGUF file or hub name."""
    layer: int = 3
    """Layer whose states are inverted: the output of that block, from 0."""
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
    """Tokens of a prompt, from its start."""
    mechanism: str = NO_MECHANISM
    """Release mechanism that is applied first; none for clean states."""
    kl_nats: float = 0.3
    """Measured KL that the mechanism is scaled to."""
    release: str = ""
    """A file of insular hidden fit to apply instead of fitting a mechanism here."""
    fit: int = 256
    """Prompts that the mechanism is fitted on; none of them is inverted."""
    calibration: int = 64
    """Prompts on which it is scaled; none of them is inverted."""
    rank: int = 128
    """Dimensions of a low-rank mechanism."""
    storage: StorageFormat = "float32"
    """How states are kept: float32, bf16, int8, int4."""
    every: int = 1
    """Positions 0, g, 2 g, ... are kept."""
    prior: PriorUse = "auto"
    """When next-token probabilities are asked for: auto, always, never."""
    beam: int = 8
    """Most hypotheses that are carried on."""
    max_candidates: int = 4096
    """Most tokens that are tried at one position."""
    show_text: bool = False
    """Write recovered and true text into results and page."""
    significance: float = 0.05
    """Error probability of each interval."""
    seed: int = 0
    """Noise and intervals follow from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        also = []
        if self.release and self.mechanism != NO_MECHANISM:
            also.append(
                f"mechanism must be none with release, got mechanism={self.mechanism!r}; name one."
            )
        if self.significance in (0, 1):
            also.append(
                f"significance must be above 0 and below 1, got significance={self.significance!r}."
            )
        _check.every(
            (
                lambda: _check.at_least(0, layer=self.layer, seed=self.seed),
                lambda: _check.at_least(1, prompts=self.prompts, every=self.every, beam=self.beam),
                lambda: _check.at_least(1, tokens=self.tokens, rank=self.rank),
                lambda: _check.at_least(2, fit=self.fit, calibration=self.calibration),
                lambda: _check.at_least(64, max_candidates=self.max_candidates),
                lambda: _check.one_of((NO_MECHANISM, *MECHANISM_KINDS), mechanism=self.mechanism),
                lambda: _check.positive_finite(kl_nats=self.kl_nats),
                lambda: _check.one_of(STORAGE_FORMATS, storage=self.storage),
                lambda: _check.one_of(("auto", "always", "never"), prior=self.prior),
                lambda: _check.probability(significance=self.significance),
            ),
            also=also,
        )

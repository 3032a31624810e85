"""What ``insular hidden store`` is asked to measure, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.hidden.states.storage_spec import STORAGE_FORMATS, StorageFormat
from insular.recipes.hidden.spec import MECHANISM_KINDS, NO_MECHANISM, SweepSpec

_MECHANISMS = (NO_MECHANISM, "isotropic")
_SHARED = ("model", "layers", "kl_nats", "text", "text_field", "id_field", "encoding", "tokens",
           "bank", "queries", "fit", "labels", "calibration", "rank", "significance", "dtype",
           "attention", "device", "batch_tokens", "seed")  # fmt: skip
"""Settings that a sweep has too, with the same meaning."""


@final
@dataclass(frozen=True, kw_only=True)
class HiddenStoreSpec:
    """One run of ``insular hidden store``."""

    model: str = "smollm2"
    """Alias, folder, GGUF file or hub name."""
    layers: tuple[int, ...] = (3,)
    """Layers whose states are kept: outputs of these blocks, from 0."""
    mechanisms: tuple[str, ...] = _MECHANISMS
    """Release mechanisms that writes go through; none for clean states."""
    kl_nats: tuple[float, ...] = (0.3,)
    """Targets of the measured KL, at which mechanisms are compared."""
    storages: tuple[StorageFormat, ...] = ("float32", "int8")
    """How states are kept: float32, bf16, int8, int4."""
    index: Literal["numpy", "faiss"] = "numpy"
    """Kind of the index: numpy, or faiss where that is installed."""
    k: int = 10
    """Neighbours of a search."""
    text: str = "wikipedia"
    """Packaged text or file; a state is that of a prompt's last token."""
    text_field: str = "text"
    """Column with the text."""
    id_field: str = ""
    """Column with ids; empty for line numbers."""
    encoding: str = "utf-8"
    """Of a text file."""
    states: str = ""
    """A safetensors file with one matrix of states, one row a prompt, instead of a text."""
    release: str = ""
    """A file of insular hidden fit that the writes of such states go through."""
    tokens: int = 32
    """Longest prompt, in tokens; longer texts become several prompts."""
    bank: int = 2000
    """States in the index, which are the attacker's candidates."""
    queries: int = 500
    """States that are searched with, and whose kept rows are attacked: the first ones."""
    fit: int = 1000
    """Prompts that mechanisms are fitted on; never in the index."""
    labels: int = 4
    """Next tokens drawn for each fitted prompt, for the Fisher matrix."""
    calibration: int = 100
    """Prompts on which the noise is scaled to a target."""
    rank: int = 128
    """Dimensions of the subspaces that subspace mechanisms use."""
    significance: float = 0.05
    """Error probability of each interval."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """What the model computes in."""
    attention: str = "eager"
    """Attention kernel of transformers: ``eager`` or ``sdpa``."""
    device: str = "cpu"
    """Where the model runs."""
    batch_tokens: int = 2048
    """Tokens of one forward, padding included."""
    seed: int = 0
    """Roles of the prompts, noise and intervals follow from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        also = []
        if self.release and not self.states:
            also.append(
                f"release must come with states that it is for, got release={self.release!r} alone;"
                " give a file of states, or name a --mechanism to fit to a text."
            )
        if self.states and self.mechanisms != _MECHANISMS:
            also.append(
                f"mechanisms must be fitted to a text, got {','.join(self.mechanisms)} with states;"
                " give --release."
            )
        also += [
            f"{name} must be different ones, got one twice."
            for name in ("mechanisms", "storages")
            if len(set(getattr(self, name))) < len(getattr(self, name))
        ]
        known = (NO_MECHANISM, *MECHANISM_KINDS)
        strange = [name for name in self.mechanisms if name not in known]
        _check.every(
            (
                *(lambda name=name: _check.one_of(known, mechanisms=name) for name in strange),
                lambda: strange or self.sweep,
                *(
                    lambda name=name: _check.one_of(STORAGE_FORMATS, storages=name)
                    for name in self.storages
                ),
                lambda: _check.one_of(("numpy", "faiss"), index=self.index),
                lambda: _check.at_least(1, k=self.k, mechanisms=len(self.mechanisms)),
                lambda: _check.at_least(1, storages=len(self.storages)),
                lambda: _check.at_least(2, queries=self.queries),
                lambda: _check.at_least(self.k + 1, bank=self.bank),
            ),
            also=also,
        )

    @property
    def sweep(self) -> SweepSpec:
        """The settings of a sweep over the same states."""
        shared = {name: getattr(self, name) for name in _SHARED}
        mechanisms = tuple(name for name in self.mechanisms if name != NO_MECHANISM)
        return SweepSpec(
            **shared,
            mechanisms=tuple(dict.fromkeys(mechanisms)),
            evaluation=max(2, min(SweepSpec.evaluation, self.queries)),
        )

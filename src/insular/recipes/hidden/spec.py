"""What ``insular hidden`` is asked to measure, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check
from insular.errors import InvalidArgumentError

NO_MECHANISM = "none"
"""What clean states go through."""
MECHANISM_KINDS: dict[str, str] = {
    "isotropic": "equal noise in every direction",
    "complement": "noise outside the directions that the model reads most",
    "fisher-complement": "inverse-Fisher noise outside those directions",
    "generalized-eigen": "noise where prompts differ most for what the model reads",
    "generalized-eigen-floor": "the same, half of the budget in every direction",
    "adaptive-optimum": "least mean information over random pairs of prompts",
    "adaptive-optimum-near": "the same over nearest neighbours",
    "inverse-fisher": "least information in the worst direction",
    "diagonal-inverse-fisher": "the same, coordinate by coordinate",
    "alpha-half": "coordinate by coordinate, inverse root of what the model reads",
    "diagonal-mahalanobis": "least mean information, coordinate by coordinate",
    "mutual-information": "least mutual information with a Gaussian state",
    "worst-case": "least information for the worst pair of nearest neighbours",
    "quantization": "rounding to a grid; no noise, no epsilon",
    "dropout": "coordinates set to zero; no epsilon",
}
"""Release mechanisms, with one line on each."""


@final
@dataclass(frozen=True, kw_only=True)
class SweepSpec:
    """One run of ``insular hidden sweep``."""

    model: str = "smollm2"
    """Alias, folder, GGUF file or hub name."""
    layers: tuple[int, ...] = (3, 15, 27)
    """Layers whose states are released: outputs of these blocks, from 0."""
    mechanisms: tuple[str, ...] = ()
    """Release mechanisms; empty for all."""
    kl_nats: tuple[float, ...] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    """Targets of the measured KL, at which mechanisms are compared."""
    text: str = "wikipedia"
    """Packaged text or file."""
    text_field: str = "text"
    """Column with the text."""
    id_field: str = ""
    """Column with ids; empty for line numbers."""
    encoding: str = "utf-8"
    """Of a text file."""
    tokens: int = 32
    """Longest prompt, in tokens; longer texts become several prompts."""
    bank: int = 5000
    """Candidates among which an attacker looks for the prompt."""
    queries: int = 500
    """Released states that are attacked, each of a candidate."""
    fit: int = 2000
    """Prompts that mechanisms are fitted on; never attacked, never evaluated."""
    labels: int = 4
    """Next tokens drawn for each fitted prompt, for the Fisher matrix."""
    calibration: int = 100
    """Prompts on which the noise is scaled to a target."""
    evaluation: int = 200
    """Queries on which utility is measured."""
    repeats: int = 1
    """Seeds of the noise."""
    rank: int = 128
    """Dimensions of the subspaces that subspace mechanisms and attackers use."""
    shrinkage: float = 0.05
    """Share of each matrix's trace that is spread evenly before it is inverted."""
    agreement: float = 0.5
    """Least top-1 agreement of a release that counts as useful."""
    top1: float = 0.1
    """Largest retrieval top-1, of the best attacker, that counts as private."""
    delta: float = 1e-5
    """Delta of every epsilon."""
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
    """Roles of the prompts, labels and noise follow from it."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        rules = (
            lambda: _check.at_least(4, tokens=self.tokens),
            lambda: _check.at_least(2, bank=self.bank, fit=self.fit, calibration=self.calibration),
            lambda: _check.at_least(
                1,
                queries=self.queries,
                labels=self.labels,
                repeats=self.repeats,
                rank=self.rank,
                batch_tokens=self.batch_tokens,
                layers=len(self.layers),
                kl_nats=len(self.kl_nats),
            ),
            lambda: _check.at_least(2, evaluation=self.evaluation),
            lambda: _check.at_least(0, seed=self.seed),
            lambda: _check.one_of(("float32", "bfloat16"), dtype=self.dtype),
            lambda: _check.one_of(("eager", "sdpa"), attention=self.attention),
            lambda: _check.probability(agreement=self.agreement),
            lambda: _check.positive_finite(shrinkage=self.shrinkage),
            lambda: _check.probability(shrinkage=self.shrinkage),
            lambda: _inside(0.0, top1=self.top1, delta=self.delta, significance=self.significance),
            *(lambda layer=layer: _check.at_least(0, layers=layer) for layer in self.layers),
            *(lambda kl=kl: _check.positive_finite(kl_nats=kl) for kl in self.kl_nats),
            *(
                lambda name=name: _check.one_of(tuple(MECHANISM_KINDS), mechanisms=name)
                for name in self.mechanisms
            ),
        )
        also = [
            f"{name} must be different ones, got one twice."
            for name in ("layers", "mechanisms", "kl_nats")
            if len(set(getattr(self, name))) < len(getattr(self, name))
        ]
        if self.queries > self.bank:
            also.append(
                f"queries must be candidates of the bank of {self.bank}, got "
                f"queries={self.queries}; raise --bank."
            )
        if self.evaluation > self.queries:
            also.append(
                f"evaluation must be at most the {self.queries} queries, got "
                f"evaluation={self.evaluation}."
            )
        if self.top1 <= 1 / max(self.bank, 1):
            also.append(
                f"top1 must be above chance, 1/{self.bank}, got top1={self.top1!r}; raise --bank."
            )
        if self.rank > self.fit * self.labels:
            also.append(
                f"rank must be at most the {self.fit * self.labels} gradients of --fit {self.fit} "
                f"and --labels {self.labels}, got rank={self.rank}."
            )
        _check.every(rules, also=also)

    @property
    def chosen(self) -> tuple[str, ...]:
        """The mechanisms that run."""
        return self.mechanisms or tuple(MECHANISM_KINDS)


def _inside(low: float, **values: float) -> None:
    """Refuse a value that is not strictly between ``low`` and 1."""
    for name, value in values.items():
        if not low < value < 1:
            raise InvalidArgumentError(
                f"{name} must be above {low:g} and below 1, got {name}={value!r}."
            )

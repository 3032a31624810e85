"""What one membership attack is asked to do, as one TOML file can say it. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular import _check

OnOverlap = Literal["refuse", "drop"]


@final
@dataclass(frozen=True, kw_only=True)
class MembershipSpec:
    """One run of ``insular attack membership``."""

    run: str
    """Folder of a training run or of an adapter, or a model."""
    members: str
    """File of records that the model learnt from."""
    non_members: str
    """File of records of the same kind that it did not learn from."""
    model: str = ""
    """Base model of an adapter; empty for the one that run or adapter name."""
    reference: str = ""
    """Model that the reference score compares with; empty for an adapter's own base."""
    text_field: str = "text"
    """Field of the text, in formats that have fields."""
    id_field: str = "id"
    """Field of the record id; empty for file and position."""
    unit: str = ""
    """Field of the owner, over whose records scores are averaged; empty for the unit of the run's
    promise, else each record."""
    encoding: str = "utf-8"
    """Encoding of the files."""
    tokens: int = 0
    """Longest beginning of a record that is scored; 0 for the run's, else 512 or the context."""
    lowest_percent: int = 20
    """Share of the least likely tokens that the min-k score takes."""
    similarity: float = 0.5
    """Share of word 5-grams in common from which a non-member counts as a copy."""
    overlap: OnOverlap = "refuse"
    """Whether copies among the non-members are an error, or left out."""
    shadow: str = ""
    """File of losses under shadow models, for likelihood ratios; empty for none."""
    shadow_runs: tuple[str, ...] = ()
    """Folders of training runs that are shadow models: trained as the attacked run was, each on
    another random half of both files."""
    fprs: tuple[float, ...] = (0.001, 0.01)
    """False positive rates at which true positive rates are stated."""
    epsilon: float = 0.0
    """Promise of a model without a training run, in nats; 0 for none."""
    delta: float = 0.0
    """Its delta; without a promise, that of the bound on epsilon, 0 for 1e-5."""
    significance: float = 0.05
    """Error probability of all that is refuted together, and of each interval."""
    physical_tokens: int = 2048
    """Most tokens, padding included, of one forward."""
    block_records: int = 512
    """Records of a block: what a stopped run loses at most."""
    device: str = "cpu"
    """Where the model computes."""
    seed: int = 0
    """Says which half of the records chooses thresholds."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        rules = (
            lambda: _check.one_of(("refuse", "drop"), overlap=self.overlap),
            lambda: _check.at_least(0, tokens=self.tokens, seed=self.seed),
            lambda: _check.at_least(
                1,
                lowest_percent=self.lowest_percent,
                physical_tokens=self.physical_tokens,
                block_records=self.block_records,
                fprs=len(self.fprs),
            ),
            lambda: _check.positive_finite(
                similarity=self.similarity, significance=self.significance
            ),
            lambda: _check.probability(
                similarity=self.similarity, significance=self.significance, delta=self.delta
            ),
            lambda: _check.non_negative_finite(epsilon=self.epsilon),
            *(lambda rate=rate: _check.probability(fprs=rate) for rate in self.fprs),
        )
        also = []
        if self.tokens == 1:
            also.append("tokens must be 0 or at least 2, got tokens=1: a loss needs two.")
        if self.lowest_percent > 100:
            also.append(f"lowest_percent must be at most 100, got {self.lowest_percent}.")
        if self.tokens > self.physical_tokens:
            also.append(
                "physical_tokens must hold one record of tokens, got"
                f" physical_tokens={self.physical_tokens} and tokens={self.tokens}; raise it."
            )
        if self.shadow and self.shadow_runs:
            also.append(
                "shadow must be a file of losses or folders of runs, got both; leave one out."
            )
        for name in ("members", "non_members"):
            if not getattr(self, name):
                also.append(f"{name} must name a file of records, got none.")
        _check.every(rules, also=also)

"""What adapters to add: a frozen description, free of torch."""

from dataclasses import dataclass
from typing import final

from insular import _check
from insular.errors import InvalidArgumentError


@final
@dataclass(frozen=True, kw_only=True)
class LoraSpec:
    """Low-rank adapters B A, scaled by alpha / rank, beside frozen linear layers.

    Source:
        Hu et al. (2022), LoRA. https://arxiv.org/abs/2106.09685
    """

    rank: int = 8
    """Rows of A and columns of B."""
    alpha: float = 16.0
    """Numerator of the scale alpha / rank."""
    targets: tuple[str, ...] = ()
    """Last parts of the names of the linear layers to adapt; empty means query and value."""
    init_b_std: float = 0.0
    """Standard deviation of B's initial entries. At 0.0 A has no gradient at the first step."""
    seed: int = 0
    """Seed of the initial A and B. It never touches the global generators."""

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            InvalidArgumentError: If a field breaks its rule.
        """
        _check.at_least(1, rank=self.rank)
        _check.at_least(0, seed=self.seed)
        _check.positive_finite(alpha=self.alpha)
        _check.non_negative_finite(init_b_std=self.init_b_std)
        if isinstance(self.targets, str) or not all(
            isinstance(target, str) and target for target in self.targets
        ):
            raise InvalidArgumentError(
                f"targets must be a tuple of non-empty names, got targets={self.targets!r}."
            )

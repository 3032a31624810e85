"""Several releases of one prompt: layers, positions, repeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from insular.accounting import pair_epsilon
from insular.errors import InvalidArgumentError
from insular.hidden.matrices.draws import Draws
from insular.hidden.mechanisms.gaussian import GaussianRelease
from insular.hidden.mechanisms.interface import Release


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ComposedRelease:
    """Views of one prompt with independent noise each.

    Guarantees:
        * ``D^2`` of the views together is the sum of theirs.
    """

    views: tuple[Release, ...]
    """One Gaussian release for each layer, position or repeat."""

    def __post_init__(self) -> None:
        """Refuse what has no accounting."""
        if not self.views:
            raise InvalidArgumentError("views must hold at least one release, got none.")
        for view in self.views:
            if not isinstance(view, GaussianRelease):
                raise InvalidArgumentError(
                    "views must be Gaussian releases, got one of "
                    f"{view.mechanism.kind}: it has no epsilon."
                )

    def sample(
        self, states: Sequence[Float[Tensor, "record hidden"]], *, generator: Draws
    ) -> tuple[Float[Tensor, "record hidden"], ...]:
        """Release each view's states, with noise of its own.

        Args:
            states: One matrix a view; repeats give the same one again.
            generator: Source of randomness; seeded, so for measurements only.

        Returns:
            The released states.
        """
        return tuple(
            view.sample(rows, generator=generator)
            for view, rows in zip(self.views, self._each(states), strict=True)
        )

    def squared_distance(
        self, differences: Sequence[Float[Tensor, "pair hidden"]]
    ) -> Float[Tensor, " pair"]:
        """``D^2`` of each pair, over all views.

        Args:
            differences: Of the same pairs, one matrix a view.

        Returns:
            The sum of each view's.
        """
        return torch.stack(
            [
                view.squared_distance(rows)
                for view, rows in zip(self.views, self._each(differences), strict=True)
                if isinstance(view, GaussianRelease)
            ]
        ).sum(0)

    def epsilon(
        self, differences: Sequence[Float[Tensor, "pair hidden"]], *, delta: float
    ) -> Float[Tensor, " pair"]:
        """The exact epsilon of each pair at ``delta``, in nats, of all views together.

        Args:
            differences: Of the same pairs, one matrix a view.
            delta: From 0, below 1.

        Returns:
            Epsilon of each pair.
        """
        apart = self.squared_distance(differences).sqrt().tolist()
        return torch.tensor(
            [mu if mu == torch.inf else pair_epsilon(mu, delta) for mu in apart],
            dtype=torch.float64,
        )

    def _each(self, rows: Sequence[Tensor]) -> Sequence[Tensor]:
        """One matrix a view, all of the same length."""
        if len(rows) != len(self.views) or len({len(matrix) for matrix in rows}) > 1:
            raise InvalidArgumentError(
                f"every view must get as many rows, in {len(self.views)} matrices; got "
                f"{[len(matrix) for matrix in rows]}."
            )
        return rows

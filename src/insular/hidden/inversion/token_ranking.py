"""Rank the whole vocabulary for a state, in one matrix product."""

from functools import cached_property
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from insular.hidden.inversion.token_table import TokenTable
from insular.hidden.matrices.covariance import PsdMatrix

_ROWS = 32  # positions ranked at once


@final
class TokenRanking:
    r"""Log-likelihood of every token for a state, under a token table.

    :math:`-\tfrac12 (z - T_v - \mu)' (C + S)^{-1} (z - T_v - \mu)`, S what noise and storage add.
    The table is whitened once; a position costs one product with it.

    Guarantees:
        * Equal to the Mahalanobis distance computed token by token, up to rounding and a constant
          of the position.

    Args:
        table: The table.
        added: S; None for clean states.
    """

    def __init__(self, table: TokenTable, *, added: PsdMatrix | None = None) -> None:
        self.table = table
        self._noise = None if added is None else added.dense().to(table.covariance)
        noise = self._noise
        self._later = _Whitened(table.table, self._with_noise(table.covariance))
        size = len(table.covariance)
        first = table.first.double()
        # the first position is known but for rounding; its noise is all that is added
        floor = (table.rounding**2 * float(first.square().mean())) or 1e-20
        own = floor * torch.eye(size, dtype=first.dtype)
        self._first = None if noise is None else _Whitened(table.first, noise + own)
        self._first_floor = floor

    def _with_noise(self, covariance: Tensor) -> Tensor:
        """What the model leaves open, and what noise and storage add."""
        return covariance if self._noise is None else covariance + self._noise

    @cached_property
    def _before(self) -> "_Whitened":
        """What each token does to the state after it; made when it is first asked for."""
        table = self.table
        shifts = (table.table.double() - table.centre) @ table.influence
        return _Whitened(shifts.float(), self._with_noise(table.uninfluenced))

    def first_position(self, state: Float[Tensor, " hidden"]) -> Float[Tensor, " vocab"]:
        """Log-likelihood of each token at the first position.

        Args:
            state: What was released there.

        Returns:
            One number a token, in nats up to a constant.
        """
        if self._first is not None:
            return self._first.scores(state[None])[0]
        apart = (self.table.first - state.to(self.table.first)).square().sum(1)
        return -apart / (2 * self._first_floor)

    def later_positions(
        self, states: Float[Tensor, "token hidden"]
    ) -> Float[Tensor, "token vocab"]:
        """Log-likelihood of each token at any later position, whatever stands before it.

        Args:
            states: What was released.

        Returns:
            One row a position, in nats up to a constant each.
        """
        rows = states.double() - self.table.shift
        return torch.cat([self._later.scores(part) for part in rows.split(_ROWS)])

    def token_before(
        self, state: Float[Tensor, " hidden"], tokens: Int[Tensor, " candidate"]
    ) -> Float[Tensor, " vocab"]:
        """Log-likelihood of each token at the position before, by what it does to a state.

        Args:
            state: What was released.
            tokens: Which tokens may stand at the state's own position.

        Returns:
            One number a token, for whichever of the tokens suits it best.
        """
        table = self.table
        rows = state.double() - table.shift - table.table[tokens].double()
        return self._before.scores(rows, whole=True).amax(0)

    def corrected(
        self,
        state: Float[Tensor, " hidden"],
        tokens: Int[Tensor, " candidate"],
        states: Float[Tensor, "candidate hidden"],
    ) -> Float[Tensor, " vocab"]:
        """The same with mu replaced by what true states of some tokens show of this prefix.

        Args:
            state: What was released.
            tokens: Tokens whose states after the prefix were computed.
            states: Those states.

        Returns:
            One number a token.
        """
        shift = (states.double() - self.table.table[tokens].double()).mean(0)
        return self._later.scores((state.double() - shift)[None])[0]


@final
class _Whitened:
    """Rows in coordinates in which a covariance is the identity."""

    def __init__(self, rows: Tensor, covariance: Tensor) -> None:
        inverse = torch.linalg.inv(covariance)
        self._factor = torch.linalg.cholesky((inverse + inverse.T) / 2)
        # differences of large numbers: the mean goes first
        self._mean = rows.double().mean(0)
        self._rows = ((rows.double() - self._mean) @ self._factor).float()
        self._half = self._rows.square().sum(1) / 2

    def scores(self, states: Tensor, *, whole: bool = False) -> Tensor:
        """Minus half the squared distance to each row, by default less what all rows share."""
        white = ((states.double() - self._mean) @ self._factor).float()
        scores = white @ self._rows.T - self._half
        return scores - white.square().sum(1, keepdim=True) / 2 if whole else scores

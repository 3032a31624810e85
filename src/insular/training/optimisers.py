"""Optimisers: a noisy mean gradient in, changed parameters out. They see nothing private."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from insular import _check
from insular.errors import InvalidArgumentError, TrainingError


class Optimiser(ABC):
    """Changes trainable parameters by a flattened gradient.

    The gradient is the noisy sum over the public divisor, so every optimiser is post-processing.

    Guarantees:
        * Equal parameters, states, gradients and rates give equal parameters, bit for bit.
        * After ``load(other.state())`` it goes on exactly as the other one.
        * A gradient that is not finite is refused before anything changes.
    """

    name: str
    """How a run names it."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Take the parameters in the order in which gradients are flattened."""
        if not parameters:
            raise InvalidArgumentError("parameters must hold at least one tensor, got none.")
        self._parameters = dict(parameters)
        self._sizes = [p.numel() for p in self._parameters.values()]

    @torch.no_grad()
    def step(self, gradient: Float[Tensor, " param"], *, learning_rate: float) -> None:
        """Change the parameters in place.

        Args:
            gradient: Noisy mean gradient, flattened in the order of the parameters.
            learning_rate: Of this step, at or above 0.

        Raises:
            InvalidArgumentError: If the rate breaks its rule, or the gradient has another length
                or is not finite.
        """
        _check.non_negative_finite(learning_rate=learning_rate)
        if gradient.numel() != sum(self._sizes):
            raise InvalidArgumentError(
                f"gradient must have one value for each of {sum(self._sizes)} trainable "
                f"coordinates, got {gradient.numel()}."
            )
        if not bool(gradient.isfinite().all()):
            raise InvalidArgumentError(
                "gradient must be finite, got NaN or infinity; look for it in the noise or the "
                "divisor, because a record's own is clipped to 0."
            )
        self._update(gradient.to(self._like()), learning_rate)

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """What the next step depends on, besides the parameters.

        Returns:
            Copies, by name.
        """

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state.

        Args:
            state: What ``state`` returned.

        Raises:
            TrainingError: If it is not a state of this optimiser over these parameters.
        """
        expected = self.state()
        found = {name: (tuple(t.shape), t.dtype) for name, t in state.items()}
        if found != {name: (tuple(t.shape), t.dtype) for name, t in expected.items()}:
            raise TrainingError(
                f"the state must be one of {self.name} over {sum(self._sizes)} coordinates, with "
                f"{', '.join(expected) or 'no tensors'}; got {', '.join(found) or 'no tensors'}."
            )
        self._restore({name: t.to(expected[name].device).clone() for name, t in state.items()})

    @abstractmethod
    def _update(self, gradient: Float[Tensor, " param"], learning_rate: float) -> None:
        """Apply one checked gradient."""

    @abstractmethod
    def _restore(self, state: dict[str, Tensor]) -> None:
        """Keep a checked state."""

    def _like(self) -> Float[Tensor, " param"]:
        """Zeros for each coordinate, in float32 or wider, on the parameters' device."""
        dtype = torch.float32
        for parameter in self._parameters.values():
            dtype = torch.promote_types(dtype, parameter.dtype)
        device = next(iter(self._parameters.values())).device
        return torch.zeros(sum(self._sizes), dtype=dtype, device=device)

    def _split(self, flat: Float[Tensor, " param"]) -> list[tuple[nn.Parameter, Tensor]]:
        """Each parameter with its part of a flat vector."""
        parts = flat.split(self._sizes)
        parameters = self._parameters.values()
        return [(p, part.view_as(p)) for p, part in zip(parameters, parts, strict=True)]


@final
class DpSgd(Optimiser):
    r"""Gradient descent, with momentum if asked.

    .. math:: b_t = \mu b_{t-1} + g_t, \quad \theta_t = \theta_{t-1} - \eta_t b_t

    Guarantees:
        * Those of ``Optimiser``.
        * Equal to ``torch.optim.SGD`` on the same gradients.

    Source:
        Abadi et al. (2016), Algorithm 1.
    """

    name = "dp-sgd"

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, momentum: float = 0.0) -> None:
        """Start at rest; ``momentum`` is mu, from 0, below 1."""
        super().__init__(parameters)
        _check_decay(momentum=momentum)
        self._momentum = momentum
        self._buffer = self._like() if momentum else None

    def state(self) -> dict[str, Tensor]:
        """The momentum buffer, if there is momentum.

        Returns:
            Copies, by name.
        """
        return {} if self._buffer is None else {"momentum": self._buffer.clone()}

    def _update(self, gradient: Float[Tensor, " param"], learning_rate: float) -> None:
        """One step."""
        if self._buffer is not None:
            gradient = self._buffer.mul_(self._momentum).add_(gradient)
        for parameter, part in self._split(gradient):
            parameter.add_(part, alpha=-learning_rate)

    def _restore(self, state: dict[str, Tensor]) -> None:
        """Keep the buffer."""
        self._buffer = state.get("momentum")


@final
class DpAdamW(Optimiser):
    r"""Adam with decoupled weight decay, and the known noise taken out of the second moment.

    The noisy gradient is g + z, with z of known variance :math:`\phi = (s / b)^2` for noise of
    standard deviation s on the sum and divisor b, so the second moment estimates
    :math:`g^2 + \phi`. Left in, the noise flattens Adam to gradient descent with momentum.

    .. math::
        m_t &= \beta_1 m_{t-1} + (1 - \beta_1) g_t, \quad
        v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2 \\
        \hat m_t &= m_t / (1 - \beta_1^t), \quad \hat v_t = v_t / (1 - \beta_2^t) \\
        \theta_t &= (1 - \eta_t \lambda) \theta_{t-1} -
        \eta_t \hat m_t / \left( \sqrt{\max(\hat v_t - \phi, f)} + e \right)

    The floor f is ``floor_share`` times :math:`\phi`, a public constant: where the gradient is
    smaller than the noise the difference can fall below 0.

    Guarantees:
        * Those of ``Optimiser``.
        * Without noise it equals ``torch.optim.AdamW`` on the same gradients, to rounding.
        * No coordinate of the mean gradient's average is multiplied by more than
          ``1 / (sqrt(floor_share) s / b)``.

    Source:
        Tang, Shpilevskiy and Lecuyer (2023), "DP-AdamBC"; Loshchilov and Hutter (2019) for the
        decay.
    """

    name = "dp-adamw"

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        *,
        noise_std: float,
        divisor: float,
        betas: tuple[float, float] = (0.9, 0.999),
        stabiliser: float = 1e-8,
        floor_share: float = 0.25,
        weight_decay: float = 0.0,
    ) -> None:
        """Start at rest.

        Args:
            parameters: In the order in which gradients are flattened.
            noise_std: Standard deviation of the noise on each coordinate of the sum.
            divisor: Public divisor of the noisy sum.
            betas: Decay of the first and of the second moment.
            stabiliser: e, added to the root.
            floor_share: Floor of the corrected second moment, as a share of the noise variance.
            weight_decay: lambda.
        """
        super().__init__(parameters)
        _check.positive_finite(divisor=divisor)
        _check.non_negative_finite(
            noise_std=noise_std,
            stabiliser=stabiliser,
            floor_share=floor_share,
            weight_decay=weight_decay,
        )
        _check_decay(beta1=betas[0], beta2=betas[1])
        self._noise_variance = (noise_std / divisor) ** 2
        self._floor = floor_share * self._noise_variance
        self._betas = betas
        self._stabiliser = stabiliser
        self._weight_decay = weight_decay
        self._steps = 0
        self._mean = self._like()
        self._square = self._like()

    def state(self) -> dict[str, Tensor]:
        """Steps taken and both moments.

        Returns:
            Copies, by name.
        """
        return {
            "steps": torch.tensor(self._steps, dtype=torch.int64),
            "mean": self._mean.clone(),
            "square": self._square.clone(),
        }

    def _update(self, gradient: Float[Tensor, " param"], learning_rate: float) -> None:
        """One step, in torch's own order of operations."""
        beta1, beta2 = self._betas
        self._steps += 1
        self._mean.lerp_(gradient, 1 - beta1)
        self._square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        first, second = 1 - beta1**self._steps, 1 - beta2**self._steps
        if self._noise_variance > 0:
            clean = (self._square / second - self._noise_variance).clamp_(min=self._floor)
            root = clean.sqrt_()
        else:
            root = self._square.sqrt().div_(math.sqrt(second))
        root.add_(self._stabiliser)
        for (parameter, mean), (_, below) in zip(
            self._split(self._mean), self._split(root), strict=True
        ):
            parameter.mul_(1 - learning_rate * self._weight_decay)
            parameter.addcdiv_(mean, below, value=-learning_rate / first)

    def _restore(self, state: dict[str, Tensor]) -> None:
        """Keep the moments."""
        self._steps = int(state["steps"])
        self._mean, self._square = state["mean"], state["square"]


OPTIMISERS: dict[str, type[Optimiser]] = {one.name: one for one in (DpSgd, DpAdamW)}
"""Every optimiser, by name."""


def _check_decay(**values: float) -> None:
    """Refuse a decay outside [0, 1)."""
    for name, value in values.items():
        _check.probability(**{name: value})
        if value == 1:
            raise InvalidArgumentError(f"{name} must be from 0, below 1, got {name}={value!r}.")

"""Whether private training happens at all: noise moves a dead tensor as well as a live one."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor, nn, uint8

from insular import _check
from insular.errors import InvalidArgumentError, TrainingError
from insular.training.results import Liveness

PATIENCE_STEPS = 3
"""Steps with someone in them after which every tensor must have had a gradient. A zero LoRA B gives
its A a gradient of exactly zero in the first step, and not after it."""


@final
@dataclass(frozen=True, kw_only=True)
class LivenessState:
    """What a watch has seen, for a checkpoint."""

    starting_sha256: dict[str, str]
    """Digest of each tensor before the first step."""
    with_gradient: tuple[str, ...]
    """Tensors for which some record had a gradient other than zero."""
    n_steps: int
    """Steps seen in which someone was drawn."""


@final
class LivenessWatch:
    """Watches the trainable tensors of one run, before noise hides what happens to them.

    Guarantees:
        * A tensor that no record reaches is an error after ``PATIENCE_STEPS`` steps with someone in
          them, before more budget is spent on it.
        * An empty draw says nothing, and counts as nothing.
        * What moved and what was saved is told bit for bit.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Remember how the tensors start; ``parameters`` in the order of flattened gradients."""
        if not parameters:
            raise InvalidArgumentError("parameters must hold at least one tensor, got none.")
        self._parameters = dict(parameters)
        self._starting = {name: digest_tensor(p) for name, p in self._parameters.items()}
        self._dead = dict.fromkeys(self._parameters)
        self._n_steps = 0

    def saw(self, clipped_sum: Float[Tensor, " param"], *, n_units: int) -> None:
        """Note which tensors had a gradient in a step.

        Args:
            clipped_sum: Sum of the clipped contributions, without noise, flattened.
            n_units: Units drawn.

        Raises:
            InvalidArgumentError: If the sum is not one over these tensors.
            TrainingError: Naming the tensors that no record reached, once the patience is over.
        """
        _check.at_least(0, n_units=n_units)
        sizes = [p.numel() for p in self._parameters.values()]
        if clipped_sum.numel() != sum(sizes):
            raise InvalidArgumentError(
                f"clipped_sum must have {sum(sizes)} coordinates, got {clipped_sum.numel()}."
            )
        if n_units == 0 or not (self._dead or self._n_steps < PATIENCE_STEPS):
            return
        self._n_steps += 1
        for name, part in zip(self._parameters, clipped_sum.split(sizes), strict=True):
            if name in self._dead and bool(part.any()):
                del self._dead[name]
        if self._dead and self._n_steps >= PATIENCE_STEPS:
            shown = ", ".join(list(self._dead)[:3])
            more = f" and {len(self._dead) - 3} more" if len(self._dead) > 3 else ""
            raise TrainingError(
                f"{len(self._dead)} of {len(self._parameters)} trainable tensors had no gradient "
                f"from any record in {self._n_steps} steps: {shown}{more}. Training would spend "
                "budget on noise alone; look for a forward without gradients that changed a "
                "quantised layer (NF4 on a CPU), a detached layer, or records without targets."
            )

    def state(self) -> LivenessState:
        """What was seen so far.

        Returns:
            It, for a checkpoint.
        """
        return LivenessState(
            starting_sha256=dict(self._starting),
            with_gradient=tuple(name for name in self._parameters if name not in self._dead),
            n_steps=self._n_steps,
        )

    def load(self, state: LivenessState) -> None:
        """Go on from what an earlier start of the run had seen.

        Args:
            state: What ``state`` returned.

        Raises:
            TrainingError: If it is of other tensors.
        """
        if list(state.starting_sha256) != list(self._parameters):
            raise TrainingError("the liveness state is of other tensors than the model trains.")
        self._starting = dict(state.starting_sha256)
        self._dead = dict.fromkeys(n for n in self._parameters if n not in state.with_gradient)
        self._n_steps = state.n_steps

    def finish(self, saved: Mapping[str, Tensor]) -> Liveness:
        """Say what moved, what had gradients and what was saved.

        Args:
            saved: Tensors of the saved adapter, under the model's names or PEFT's, which leave out
                the adapter's own name ``default``.

        Returns:
            The findings.
        """
        ends = {name: digest_tensor(p) for name, p in self._parameters.items()}
        kept = {_file_name(name): digest_tensor(tensor) for name, tensor in saved.items()}
        return Liveness(
            n_tensors=len(ends),
            unmoved=tuple(name for name, end in ends.items() if end == self._starting[name]),
            without_gradient=tuple(self._dead),
            saved_differs=tuple(n for n, end in ends.items() if kept.get(_file_name(n)) != end),
        )


def digest_tensor(tensor: Tensor) -> str:
    """The SHA-256 of a tensor's dtype, shape and bits.

    Args:
        tensor: On any device, with any strides.

    Returns:
        64 hexadecimal digits.
    """
    plain = tensor.detach().cpu().contiguous().flatten().view(uint8)
    digest = hashlib.sha256(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
    digest.update(plain.numpy().data)
    return digest.hexdigest()


def _file_name(name: str) -> str:
    """A parameter's name as PEFT writes it."""
    return name.replace(".default.", ".")

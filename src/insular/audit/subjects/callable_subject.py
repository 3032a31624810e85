"""Any stack under test, as a function from a batch to a ``[record, param]`` tensor."""

import inspect
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from torch import Tensor

from insular.audit.subjects.subject import Evaluation, Subject, SubjectFacts
from insular.errors import InsularError, SubjectError
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord


@final
class CallableSubject(Subject):
    """Any stack, as a function from a batch to a ``[record, param]`` tensor.

    The function's only parameter is named ``batch`` (it gets a
    :class:`~insular.records.batches.TokenBatch`) or ``texts`` (it gets a list of strings).

    Args:
        function: The stack under test.
        name: Its name in evidence.
        decode: Token ids to text, for ``texts``.
        pad_token_id: Token of the padding, for ``batch``.
    """

    def __init__(
        self,
        function: Callable[..., Tensor],
        *,
        name: str,
        decode: Callable[[Sequence[int]], str] | None = None,
        pad_token_id: int = 0,
    ) -> None:
        self.name = name
        self._function = function
        self._decode = decode
        self._pad_token_id = pad_token_id
        self._size: int | None = None
        self.takes = parameter_kind(function, name=name)

    def evaluate(self, records: Sequence[TokenisedRecord], *, width: int) -> Evaluation:
        """Call the function, and check what comes back."""
        mask = None
        if self.takes == "texts":
            if self._decode is None:
                raise SubjectError(
                    f"subject {self.name} takes texts, and needs decode= to turn tokens into text."
                )
            result = self._call([self._decode(record.tokens) for record in records])
        else:
            batch = collate(records, pad_token_id=self._pad_token_id, width=width)
            mask = batch.attention_mask
            result = self._call(batch)
        return Evaluation(gradients=self._checked(result, len(records)), mask=mask)

    def _call(self, argument: object) -> object:
        """Run the function. Its failure is told by kind and place: a message may quote text."""
        try:
            return self._function(argument)
        except InsularError:
            raise
        except Exception as error:
            raise SubjectError(
                f"subject {self.name} failed with {kind_and_place(error)}; the audit also calls it"
                " with smaller batches, down to one record."
            ) from error

    def facts(self) -> SubjectFacts:
        """The little that a function shows."""
        return SubjectFacts(
            engine="callable",
            model=self.name,
            trainable=(("gradient", self._size),) if self._size else (),
        )

    def _checked(self, result: object, n_records: int) -> Tensor:
        """Refuse anything but a float ``[record, param]`` tensor of constant width."""
        if not isinstance(result, Tensor) or not result.is_floating_point():
            kind = result.dtype if isinstance(result, Tensor) else type(result).__name__
            raise SubjectError(
                f"subject {self.name} must return a float tensor [record, param], got {kind}."
            )
        if result.dim() != 2 or result.shape[0] != n_records:
            raise SubjectError(
                f"subject {self.name} must return one row per record, shape"
                f" [{n_records}, param], got {list(result.shape)}; stack the records' gradients."
            )
        if self._size not in (None, result.shape[1]):
            raise SubjectError(
                f"subject {self.name} must return the same number of coordinates each time, got"
                f" {result.shape[1]} after {self._size}."
            )
        self._size = result.shape[1]
        return result.detach()


def kind_and_place(error: Exception) -> str:
    """Tell a failure of a user's code by its kind and place: its message may quote a record.

    Args:
        error: What was raised.

    Returns:
        Such as ``KeyError at mine.py:12``.
    """
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"


def parameter_kind(function: Callable[..., object], *, name: str) -> str:
    """Whether a callable takes a ``batch`` or ``texts``, by its parameter's name.

    Args:
        function: The callable.
        name: What the error calls it.

    Returns:
        ``"batch"`` or ``"texts"``.

    Raises:
        SubjectError: If it is neither.
    """
    if not callable(function):
        raise SubjectError(
            f"subject {name} must be callable, got {type(function).__name__};"
            " return a function from your factory."
        )
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 1 or parameters[0] not in ("batch", "texts"):
        raise SubjectError(
            f"subject {name} must take one parameter named batch or texts, got"
            f" ({', '.join(parameters)})."
        )
    return parameters[0]

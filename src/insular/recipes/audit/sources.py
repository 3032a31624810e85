"""Where a task gets the subject that it works on: a stack that it builds, or one that was given."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast, final

from insular.recipes.audit.spec import AuditSpec, StackName
from insular.recipes.parallel import intra_op_threads

if TYPE_CHECKING:
    from insular.audit.subjects.model_subject import ModelSubject
    from insular.audit.subjects.subject import Subject

Report = Callable[[str], None]

_last_built: "dict[tuple[AuditSpec, str], ModelSubject]" = {}
"""The stack that the last task of this process used: tasks on one stack load it once."""


@final
@dataclass(frozen=True, kw_only=True)
class BuiltStack:
    """A named stack, built in whichever process asks for it."""

    spec: AuditSpec
    """The audit."""
    name: str
    """Name of the stack."""

    @property
    def slug(self) -> str:
        """Name of its evidence."""
        return self.name

    @contextmanager
    def subject(self, report: Report) -> "Iterator[Subject]":
        """The stack that the last task of this process used, or else a new one.

        Args:
            report: Called with a short line before loading.

        Yields:
            The subject, with as many threads as the spec says.
        """
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        from insular.precision.stock import quiet_bitsandbytes
        from insular.recipes.stacks import build_stack

        key = (self.spec, self.name)
        with intra_op_threads(self.spec.threads):
            if key not in _last_built:
                report("loading")
                forget_built()  # before the next one is loaded: two models need twice the memory
                _last_built[key] = build_stack(self.spec, cast(StackName, self.name))[0]
            with quiet_bitsandbytes():
                yield _last_built[key]


@final
@dataclass(frozen=True, kw_only=True)
class GivenSubject:
    """A subject that the user built. It stays in this process."""

    given: "Subject"
    """The subject."""
    name: str
    """``module:factory``."""

    @property
    def slug(self) -> str:
        """Name of its evidence."""
        return "subject"

    @contextmanager
    def subject(self, report: Report) -> "Iterator[Subject]":
        """The subject itself.

        Args:
            report: Not needed.

        Yields:
            The subject.
        """
        from insular.precision.stock import quiet_bitsandbytes

        del report
        with quiet_bitsandbytes():
            yield self.given


Source = BuiltStack | GivenSubject


def forget_built() -> None:
    """Let go of the stack that this process keeps."""
    _last_built.clear()

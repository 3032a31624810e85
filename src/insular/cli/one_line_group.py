"""A group of commands whose usage errors are one line, as every other error is."""

from typing import Any, cast

import typer
from typer.core import TyperGroup

from insular.errors import InvalidArgumentError

# of the click that this typer brings
_UsageError = cast("type[Exception]", typer.BadParameter.__mro__[1])


class OneLineGroup(TyperGroup):
    """Wrong options are one line too, as every other error."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except _UsageError as error:
            text = " ".join(error.format_message().split())  # pyright: ignore[reportAttributeAccessIssue]
            raise InvalidArgumentError(
                f"{text.rstrip('.')}; see {_path(error) or ctx.command_path} --help."
            ) from error


def _path(error: Exception) -> str:
    """The command whose options were wrong."""
    return getattr(getattr(error, "ctx", None), "command_path", "")

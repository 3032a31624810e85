"""What planting secrets is asked to do, and the plan that it leaves. Torch-free."""

from dataclasses import dataclass
from typing import final

from insular import _check
from insular.audit.secrets.planted import PlannedSecret, parse_template
from insular.errors import InvalidArgumentError

TEMPLATE = "The access code of {name} is {6 digits}."


@final
@dataclass(frozen=True, kw_only=True)
class CanarySpec:
    """One run of ``insular attack canaries``."""

    text: str
    """File of the records among which secrets are planted."""
    secrets: int = 40
    """Secrets; half of them are controls that are planted nowhere."""
    repeat: tuple[int, ...] = (1, 4, 16, 64)
    """How often a planted secret stands in the file, evenly over the planted half."""
    template: str = TEMPLATE
    """Sentence with ``{N digits}`` or ``{N letters}``, and ``{name}`` for an invented name."""
    text_field: str = "text"
    """Field of the text, in the file that is read and in the one that is written."""
    id_field: str = ""
    """Field of the record id in the file that is read; empty for positions."""
    owner_field: str = ""
    """Field of the owner; all rows of a secret have one owner. Empty for none."""
    encoding: str = "utf-8"
    """Encoding of the file that is read."""
    seed: int = 0
    """Secrets, names and places follow from it: whoever knows it knows the secrets."""

    def __post_init__(self) -> None:
        """Report every setting that breaks its rule, then refuse once.

        Raises:
            InvalidArgumentError: Naming each problem.
        """
        rules = (
            lambda: _check.at_least(2, secrets=self.secrets),
            lambda: _check.at_least(1, repeat=len(self.repeat)),
            lambda: _check.at_least(1, repeat=min(self.repeat, default=1)),
            lambda: _check.at_least(0, seed=self.seed),
            lambda: parse_template(self.template),
            self._check_fields,
        )
        _check.every(rules)

    def _check_fields(self) -> None:
        """The fields of a row are different ones."""
        names = [self.text_field, self.id_field or "id", self.owner_field]
        used = [name for name in names if name]
        if len(set(used)) < len(used) or not self.text_field:
            raise InvalidArgumentError(
                "text_field, id_field and owner_field must be different names, got"
                f" {', '.join(names)}; an empty id_field is written as id."
            )


@final
@dataclass(frozen=True, kw_only=True)
class CanaryPlan:
    """Which secret was planted how often. The only file besides the text that holds secrets."""

    template: str
    """The sentence."""
    secrets: tuple[PlannedSecret, ...]
    """Every secret, by id."""
    training_file: str
    """The written text, in the same folder."""
    n_rows: int
    """Rows of it, planted ones included."""
    n_planted_rows: int
    """Rows that hold a secret."""
    text_field: str
    """Field of the text."""
    id_field: str
    """Field of the record id."""
    owner_field: str
    """Field of the owner; empty for none."""
    seed: int
    """Of the draw."""

    def row_ids(self, secret: PlannedSecret) -> tuple[str, ...]:
        """Ids of the rows that hold a secret.

        Args:
            secret: One of the plan.

        Returns:
            As many as it has repeats.
        """
        return tuple(f"{secret.id}#{i}" for i in range(secret.repeats))


@final
@dataclass(frozen=True, kw_only=True)
class CanaryCount:
    """Secrets that stand in the file equally often."""

    repeats: int
    """Rows of each; 0 for the controls."""
    ids: tuple[str, ...]
    """Their ids."""


@final
@dataclass(frozen=True, kw_only=True)
class CanaryCounts:
    """A plan without its secrets, for whoever may not see them."""

    training_file: str
    """The written text."""
    n_rows: int
    """Rows of it, planted ones included."""
    n_planted_rows: int
    """Rows that hold a secret."""
    counts: tuple[CanaryCount, ...]
    """By repetition count, ascending."""


def without_secrets(plan: CanaryPlan) -> CanaryCounts:
    """What may be shown of a plan.

    Args:
        plan: The plan.

    Returns:
        Its counts and ids.
    """
    return CanaryCounts(
        training_file=plan.training_file,
        n_rows=plan.n_rows,
        n_planted_rows=plan.n_planted_rows,
        counts=tuple(
            CanaryCount(
                repeats=count,
                ids=tuple(secret.id for secret in plan.secrets if secret.repeats == count),
            )
            for count in sorted({secret.repeats for secret in plan.secrets})
        ),
    )

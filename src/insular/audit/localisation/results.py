"""Where foreign influence on a record enters a model. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.audit.localisation.intervention_results import Interventions

Phase = Literal["forward", "backward"]
Role = Literal["origin", "passes", "rounding", "unchanged"]

ROOT = "(whole model)"
"""The model's own code, outside every submodule."""
OUTSIDE = "(outside the model)"
"""What surrounds the model: batching before it, the loss after it."""


@final
@dataclass(frozen=True, kw_only=True)
class ModuleInfluence:
    """What one module's own code did to records that stayed the same.

    A module's own code is what it computes itself, outside its submodules. It *originates* where
    everything that it received for a record was unchanged and something that it handed on, to a
    submodule or to its caller, was not. It *passes on* where something that it received had
    changed already. ``rounding`` is an origin too small to be more than another order of a sum.
    """

    module: str
    """Qualified name, with the call's number if the module ran again in the same pass."""
    phase: Phase
    """In which pass."""
    role: Role
    """In the run as it is: what follows the first origin receives changed values."""
    role_pinned: Role
    """With all that crosses a module's border set back: every module judged by itself."""
    records: tuple[str, ...]
    """Ids of the records on which it originates when judged by itself."""
    relative: float
    """Largest change that it originates when judged by itself, relative to the largest magnitude
    of the same row, or backward, of the record's recent gradients; 0 if it originates none."""


@final
@dataclass(frozen=True, kw_only=True)
class Origins:
    """Every module that originates, rounds or passes on influence between two batches."""

    modules: tuple[ModuleInfluence, ...]
    """Modules that changed anything, in order of execution, forward, then backward."""
    first: ModuleInfluence | None
    """The first to originate in the run as it is; None if none does, or a rounding came before."""
    observed: tuple[str, ...]
    """Every module that could be judged, in order of execution."""
    unobservable: tuple[str, ...]
    """Modules whose outputs have no rows of a record, or were edited in place afterwards. What
    they originate is attributed to the module that calls them."""
    records: tuple[str, ...]
    """Ids of the records that stayed the same."""
    rounding_bound: float
    """Largest relative change that rounding in another order explains."""

    @property
    def n_observed(self) -> int:
        """How many modules could be judged."""
        return len(self.observed)

    def originating(self, phase: Phase | None = None) -> tuple[ModuleInfluence, ...]:
        """The modules that originate influence when judged by themselves, in order of execution.

        Args:
            phase: Only in this pass; None for both.

        Returns:
            Possibly none. Roundings do not count.
        """
        return tuple(
            m for m in self.modules if m.role_pinned == "origin" and phase in (None, m.phase)
        )

    def of(self, module: str, phase: Phase) -> ModuleInfluence | None:
        """What one module did in one pass.

        Args:
            module: Its name.
            phase: The pass.

        Returns:
            Its influence, or None if it left everything unchanged.
        """
        return next((m for m in self.modules if (m.module, m.phase) == (module, phase)), None)

    def count(self, phase: Phase, role: Role, *, pinned: bool = True) -> int:
        """How many modules have a role in one pass.

        Args:
            phase: The pass.
            role: The role.
            pinned: Judged by themselves, or in the run as it is.

        Returns:
            The number; for ``unchanged``, of the observed modules.
        """
        roles = {
            m.module: m.role_pinned if pinned else m.role for m in self.modules if m.phase == phase
        }
        if role == "unchanged":
            return sum(roles.get(name, "unchanged") == "unchanged" for name in self.observed)
        return sum(found == role for found in roles.values())


@final
@dataclass(frozen=True, kw_only=True)
class Localisation:
    """Where a selected pair's excess comes from."""

    origins: Origins | None
    """Which modules originate it; None where that could not be traced."""
    origins_problem: str
    """Why not, or empty."""
    interventions: Interventions | None
    """The pair with outlier sets held fixed; None where no layer takes a union."""

"""The whole of one audit. Torch-free: who reads evidence needs no GPU stack."""

from dataclasses import dataclass
from typing import final

from insular.audit.census.results import CensusResult
from insular.audit.isolation.results import ArmResult, ArmVerdict
from insular.audit.localisation.results import Localisation
from insular.audit.reconciliation_results import Reconciliation
from insular.audit.sensitivity.results import SensitivityResult


@final
@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """An audit: the stack under test, the repairs that were tried, and how much, where, how often.

    A part that was not asked for, or does not apply to the stack, is None.
    """

    subject: ArmResult
    """The stack under test."""
    repairs: tuple[ArmResult, ...]
    """Stacks tried in its place, in the order in which they ran."""
    record_ids: tuple[str, ...]
    """The base batch."""
    clip_norm: float
    """Bound C, in gradient units."""
    sensitivity: SensitivityResult | None = None
    """How far one added record moves the clipped sum, and at what price."""
    census: CensusResult | None = None
    """How often records decide each other's precision."""
    localisation: Localisation | None = None
    """Which modules the influence comes from."""
    skipped: tuple[str, ...] = ()
    """Parts that were asked for and could not be run, each with the reason."""
    reconciliation: Reconciliation | None = None
    """The distances, computed a second time from the saved arrays alone."""

    @property
    def verdict(self) -> ArmVerdict:
        """The verdict on the stack under test."""
        return self.subject.verdict

    @property
    def exit_code(self) -> int:
        """0: isolated on the path that ran; 1: coupled; 2: undecided."""
        return {"isolated": 0, "coupled": 1, "undecided": 2}[self.subject.verdict]

    @property
    def proven_repairs(self) -> tuple[ArmResult, ...]:
        """The repairs that were isolated, fastest first."""
        isolated = [arm for arm in self.repairs if arm.verdict == "isolated"]
        return tuple(sorted(isolated, key=lambda arm: arm.seconds_per_step))

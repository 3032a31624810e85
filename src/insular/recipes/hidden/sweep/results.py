"""What a sweep over release mechanisms found. Torch-free."""

from dataclasses import dataclass
from typing import Literal, final

from insular.hidden.geometry.results import HiddenGeometry
from insular.hidden.retrieval.results import RetrievalResult
from insular.hidden.states.extraction_results import LayerFacts
from insular.hidden.states.gradient_results import GradientSummary
from insular.hidden.states.numerics_results import NumericsResult
from insular.hidden.utility.calibration_results import CalibrationStatus
from insular.hidden.utility.results import UtilityResult
from insular.recipes.hidden.geometry.components_results import ComponentsResult

CellStatus = CalibrationStatus | Literal["not fitted"]


@final
@dataclass(frozen=True, kw_only=True)
class SweepCell:
    """One mechanism at one layer, scaled to one measured KL, and attacked."""

    layer: int
    """Layer whose states are released."""
    mechanism: str
    """Its name."""
    gaussian: bool
    """Whether it adds Gaussian noise: only then is there an epsilon."""
    target_kl_nats: float
    """KL that it was scaled to, on the calibration prompts."""
    repeat: int
    """Seed of the noise, from 0."""
    status: CellStatus
    """Whether there is such a scale; only a reached one was attacked."""
    reason: str = ""
    """Why it was not fitted."""
    scale: float | None = None
    """Noise over that of the nominal budget."""
    scale_error: float | None = None
    """Its relative standard error."""
    calibrated_kl_nats: float | None = None
    """KL on the calibration prompts."""
    utility: UtilityResult | None = None
    """On held-out prompts."""
    attacks: tuple[RetrievalResult, ...] = ()
    """What each attacker found."""
    predicted_top1: float | None = None
    """Top-1 of the aware attacker, as predicted before any attack."""
    distance: float | None = None
    """Median D of a query to another candidate: the mu of Gaussian differential privacy."""
    near_distance: float | None = None
    """Median D of a query to its nearest candidate."""
    epsilon: float | None = None
    """Epsilon of the first, at the sweep's delta; None where there is none."""
    near_epsilon: float | None = None
    """Epsilon of the second."""
    seconds: float = 0.0
    """Wall-clock time."""

    @property
    def top1(self) -> float | None:
        """Top-1 of the best attacker."""
        return max((attack.top_1.value for attack in self.attacks), default=None)

    @property
    def agreement(self) -> float | None:
        """Share of prompts whose most likely next token stays."""
        return self.utility.agreement.mean if self.utility else None


@final
@dataclass(frozen=True, kw_only=True)
class LayerResult:
    """One layer's states and gradients, before any release."""

    layer: int
    """Output of that block, from 0."""
    facts: LayerFacts
    """First token and massive coordinates."""
    gradients: tuple[GradientSummary, ...]
    """Gradients, file by file."""
    geometry: HiddenGeometry
    """Energy, coupling, gains; each beside its null and its split halves."""
    clean: tuple[RetrievalResult, ...]
    """Attack on states that were released as they are."""
    gain_needed: tuple[tuple[float, float], ...]
    """For each KL target, the gain over isotropic noise that would hide prompts."""


@final
@dataclass(frozen=True, kw_only=True)
class LayersResult:
    """Some layers of a model, before any release."""

    model: str
    """What was loaded."""
    model_digest: str
    """Digest of its files."""
    text: str
    """Where the prompts come from."""
    n_candidates: int
    """Prompts in the bank."""
    n_queries: int
    """Of them, released as they are."""
    layers: tuple[LayerResult, ...]
    """Layer by layer."""
    components: tuple[ComponentsResult, ...] = ()
    """Parts of each layer's states, in the same order; older runs have none."""
    numerics: NumericsResult | None = None
    """How far rounding moves the states; older runs have none."""


@final
@dataclass(frozen=True, kw_only=True)
class Winner:
    """The mechanisms that were best under one condition."""

    layer: int
    """Layer."""
    matched: Literal["kl", "epsilon"]
    """What all had in common."""
    value: float
    """Its value, in nats."""
    mechanisms: tuple[str, ...]
    """The best, and all that its interval does not exclude."""
    measure: float
    """Top-1 of the best at equal KL; KL of the best at equal epsilon."""
    n_compared: int
    """Mechanisms that could be compared."""


@final
@dataclass(frozen=True, kw_only=True)
class SweepResult:
    """The whole sweep."""

    model: str
    """What was loaded."""
    model_digest: str
    """Digest of its files."""
    text: str
    """Where the prompts come from."""
    n_candidates: int
    """Prompts in the bank."""
    n_queries: int
    """Released states."""
    n_evaluation: int
    """Prompts of the utility."""
    agreement: float
    """Least agreement that counts as useful."""
    top1: float
    """Largest top-1 that counts as private."""
    delta: float
    """Delta of every epsilon."""
    significance: float
    """Error probability of each interval."""
    layers: tuple[LayerResult, ...]
    """Layer by layer."""
    cells: tuple[SweepCell, ...]
    """Every cell, layer by layer and mechanism by mechanism."""
    winners: tuple[Winner, ...]
    """Per layer and KL target; then per layer and epsilon."""
    cells_file: str = "cells.parquet"
    """The same cells, one row each."""

    @property
    def attacked(self) -> tuple[SweepCell, ...]:
        """Cells that reached their target."""
        return tuple(cell for cell in self.cells if cell.status == "reached")

    @property
    def in_the_middle(self) -> tuple[SweepCell, ...]:
        """Cells that are useful and private, by their point estimates."""
        return tuple(cell for cell in self.attacked if self._is_inside(cell))

    @property
    def perhaps_in_the_middle(self) -> tuple[SweepCell, ...]:
        """Cells whose intervals do not exclude it."""
        return tuple(
            cell
            for cell in self.attacked
            if cell.utility is not None
            and cell.utility.agreement.high >= self.agreement
            and max(attack.top_1.lower for attack in cell.attacks) <= self.top1
        )

    def nearest(self, layer: int) -> SweepCell | None:
        """The cell of a layer that misses both thresholds by least.

        Args:
            layer: The layer.

        Returns:
            It, or None if nothing was attacked.
        """
        mine = [cell for cell in self.attacked if cell.layer == layer]
        return min(mine, key=self._short_by, default=None)

    @property
    def exit_code(self) -> int:
        """0: each layer has a useful and private release; 1: one has none; 2: nothing attacked."""
        if not self.attacked:
            return 2
        inside = {cell.layer for cell in self.in_the_middle}
        return 0 if inside == {layer.layer for layer in self.layers} else 1

    def _is_inside(self, cell: SweepCell) -> bool:
        """Both thresholds are kept."""
        return self._short_by(cell) <= 0

    def _short_by(self, cell: SweepCell) -> float:
        """The larger of both misses; at most 0 where none is."""
        assert cell.agreement is not None and cell.top1 is not None
        return max(self.agreement - cell.agreement, cell.top1 - self.top1)

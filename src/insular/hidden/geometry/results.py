"""What the geometry of one layer is, each number beside its halves and its null. Torch-free."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class NullRange:
    """The same number of simulated data without structure: same n, same d, same row lengths."""

    mean: float
    """Mean over the simulations."""
    lowest: float
    """Smallest of them."""
    highest: float
    """Largest of them."""
    halves_mean: float
    """Mean of what the two halves of simulated data give."""
    n_simulations: int
    """Simulations."""


@final
@dataclass(frozen=True, kw_only=True)
class GeometryNumber:
    """One number of the geometry, never without what it is to be held against."""

    value: float
    """From all rows."""
    halves: tuple[float, float]
    """From two random halves of the records. Where a projector is fitted, it is fitted on one half
    and measured on the other."""
    null: NullRange
    """Without structure."""

    @property
    def beyond_null(self) -> bool:
        """Whether no simulation reached the value, on either side.

        Without structure this happens with a probability of ``2 / (n_simulations + 1)``.
        """
        return not self.null.lowest <= self.value <= self.null.highest


@final
@dataclass(frozen=True, kw_only=True)
class HiddenGeometry:
    """How one layer's output sensitivity and its prompt differences lie to each other."""

    n_states: int
    """Records whose states were used."""
    n_gradients: int
    """Gradients that were used."""
    hidden_size: int
    """Numbers in a state."""
    rank: int
    """Directions k of the projector P on the top of the Fisher matrix F."""
    fisher_shrinkage: float
    """Share of F's trace that was spread evenly. G_euc depends on it wherever n < d."""
    seed: int
    """Of the halves and the null."""
    fisher_energy: GeometryNumber
    """E_k = tr(P F)/tr F; a random projector would hold k/d."""
    coupling: GeometryNumber
    """(tr(P S_d)/tr S_d)/(k/d): 1 where the Fisher directions hold their share of differences."""
    effective_rank: GeometryNumber
    """r_95/d: share of directions that hold 95% of tr F."""
    euclidean_gain: GeometryNumber
    """G_euc = lam_max(F^-1 S_d) tr F/tr S_d: gain over isotropic noise against plain distances."""
    adaptive_gain: GeometryNumber
    """G_mah = tr F tr S_d/(tr M^(1/2))^2: gain against an attacker who knows the covariance."""
    projector_bound: GeometryNumber
    """What E_k and q = tr(P S_d)/tr S_d alone say: G_mah is at least this."""
    heaviest_gradients_share: float
    """Share of tr F that the longest 1% of gradients carry, at least one of them."""
    heaviest_states_share: float
    """Share of the states' variance that the furthest 1% of them carry."""
    mean_share: float
    """Share of the mean square of a state that is the square of the mean state."""
    heaviest_coordinate_share: float
    """Share of the mean state's square in its largest coordinate."""

"""Figures as SVG text that reads in light, dark and grey: shapes and words carry the meaning."""

from insular.reports.figures.arms import ArmRatio, arms_figure
from insular.reports.figures.census import CensusBar, census_figure
from insular.reports.figures.exposure import (
    ExposureBound,
    ExposurePoint,
    exposure_figure,
    exposure_histogram_figure,
)
from insular.reports.figures.frontier import FrontierPoint, frontier_figure
from insular.reports.figures.growth import GrowthPoint, growth_figure
from insular.reports.figures.guesses import GuessedBound, guesses_figure
from insular.reports.figures.index_cost import IndexPoint, index_figure
from insular.reports.figures.influence import InfluencePoint, influence_figure
from insular.reports.figures.intervention import InterventionBar, intervention_figure
from insular.reports.figures.inversion import PositionPoint, inversion_figure
from insular.reports.figures.layer_map import LayerCell, layer_map_figure
from insular.reports.figures.power import PowerPoint, power_figure
from insular.reports.figures.predicted import PredictedPoint, predicted_figure
from insular.reports.figures.recovery import RecoveryPoint, recovery_figure
from insular.reports.figures.roc import RocRow, roc_figure
from insular.reports.figures.sensitivity import SensitivityPoint, sensitivity_figure
from insular.reports.figures.timing import Outcome, TimeBar, time_figure
from insular.reports.figures.tradeoff import TradeoffPoint, tradeoff_figure
from insular.reports.figures.training_clipping import StepClipping, training_clipping_figure
from insular.reports.figures.training_epsilon import EpsilonPoint, training_epsilon_figure
from insular.reports.figures.training_loss import StepLoss, training_loss_figure
from insular.reports.figures.training_noise import StepNorms, training_noise_figure

__all__ = [
    "ArmRatio",
    "CensusBar",
    "EpsilonPoint",
    "ExposureBound",
    "ExposurePoint",
    "FrontierPoint",
    "GrowthPoint",
    "GuessedBound",
    "IndexPoint",
    "InfluencePoint",
    "InterventionBar",
    "LayerCell",
    "Outcome",
    "PositionPoint",
    "PowerPoint",
    "PredictedPoint",
    "RecoveryPoint",
    "RocRow",
    "SensitivityPoint",
    "StepClipping",
    "StepLoss",
    "StepNorms",
    "TimeBar",
    "TradeoffPoint",
    "arms_figure",
    "census_figure",
    "exposure_figure",
    "exposure_histogram_figure",
    "frontier_figure",
    "growth_figure",
    "guesses_figure",
    "index_figure",
    "influence_figure",
    "intervention_figure",
    "inversion_figure",
    "layer_map_figure",
    "power_figure",
    "predicted_figure",
    "recovery_figure",
    "roc_figure",
    "sensitivity_figure",
    "time_figure",
    "tradeoff_figure",
    "training_clipping_figure",
    "training_epsilon_figure",
    "training_loss_figure",
    "training_noise_figure",
]

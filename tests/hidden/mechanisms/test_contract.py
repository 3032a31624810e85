"""The contract of every release mechanism, and bugs that it must catch."""

import math

import pytest
import torch
from torch import Tensor

from hidden.matrix_samples import seeded
from hidden.mechanisms.contract import (
    check_budget,
    check_file,
    check_plausible,
    check_samples,
    check_scaling,
    check_whitener,
)
from hidden.mechanisms.table import BUDGET_NATS, FISHER_SHRINKAGE, ROWS, D, calibration
from insular.errors import InvalidArgumentError
from insular.hidden.geometry.release_geometry import ReleaseGeometry
from insular.hidden.matrices.covariance import DiagonalMatrix
from insular.hidden.matrices.spectral import SpectralMatrix, matrix_from_rows
from insular.hidden.mechanisms import (
    MECHANISMS,
    AdaptiveOptimum,
    ComposedRelease,
    DiagonalInverseFisher,
    Dropout,
    DropoutRelease,
    GaussianRelease,
    Isotropic,
    Release,
)

GIVEN = calibration()


def fitted(name: str) -> Release:
    return ROWS[name].fit(GIVEN.geometry, budget_nats=BUDGET_NATS)


each = pytest.mark.parametrize("name", ROWS)


def test_every_mechanism_is_in_the_table():
    assert {mechanism.kind for mechanism in ROWS.values()} == set(MECHANISMS)
    assert all(MECHANISMS[mechanism.kind] is type(mechanism) for mechanism in ROWS.values())


@each
def test_the_first_order_cost_is_the_budget(name):
    check_budget(fitted(name), GIVEN)


@each
def test_samples_have_the_nominal_covariance(name):
    check_samples(fitted(name), GIVEN)


@each
def test_the_whitener_is_exact(name):
    release = fitted(name)
    if isinstance(release, GaussianRelease):
        check_whitener(release, GIVEN)
    else:
        assert not hasattr(release, "whiten")


@each
def test_scaling_moves_everything_by_the_same_factor(name):
    check_scaling(fitted(name), GIVEN)


@each
def test_a_saved_release_loads_bit_for_bit(name, tmp_path):
    check_file(fitted(name), GIVEN, tmp_path)


@each
def test_clean_states_are_plausible_and_others_are_not(name):
    check_plausible(fitted(name), GIVEN)


@each
def test_only_gaussian_noise_has_an_epsilon(name):
    release = fitted(name)
    assert release.gaussian == isinstance(release, GaussianRelease)
    if isinstance(release, GaussianRelease):
        assert ComposedRelease(views=(release,)).views == (release,)
        return
    assert not hasattr(release, "epsilon") and not hasattr(release, "squared_distance")
    with pytest.raises(InvalidArgumentError, match="it has no epsilon"):
        ComposedRelease(views=(release,))


@each
@pytest.mark.parametrize("budget_nats", [0.0, -1.0, math.nan, math.inf])
def test_a_budget_that_is_no_budget_is_refused(name, budget_nats):
    with pytest.raises(InvalidArgumentError, match="budget_nats must be finite and > 0"):
        ROWS[name].fit(GIVEN.geometry, budget_nats=budget_nats)


@each
def test_states_that_do_not_fit_are_refused(name):
    release = fitted(name)
    for call in (
        lambda rows: release.sample(rows, generator=seeded(0)),
        release.see_candidates,
        release.see_released,
    ):
        with pytest.raises(InvalidArgumentError, match=f"must have hidden size {D}, got 3"):
            call(torch.ones(2, 3))
        with pytest.raises(InvalidArgumentError, match="must be finite"):
            call(torch.full((2, D), math.nan))
    for factor in (0.0, -1.0, math.inf):
        with pytest.raises(InvalidArgumentError, match="factor must be finite and > 0"):
            release.scaled(factor)
    assert release.sample(torch.ones(0, D), generator=seeded(0)).shape == (0, D)


@each
def test_each_state_gets_randomness_of_its_own_and_is_left_as_it_was(name):
    release, same = fitted(name), GIVEN.states[:1].repeat(200, 1)
    before = same.clone()
    released = release.sample(same, generator=seeded(0))
    assert torch.equal(same, before)
    again = release.sample(same, generator=seeded(0))
    assert torch.equal(released, again)
    assert bool((released == released[0]).all()) == (name == "uniform quantization")


@each
def test_a_release_is_a_sampler_at_any_scale_of_its_standard_deviation(name):
    release, states = fitted(name), GIVEN.states[:100].float()
    found = release(states, generator=seeded(0), scale=0.5)
    assert found.dtype == torch.float32
    expected = release.scaled(0.25).sample(states, generator=seeded(0)).float()
    assert torch.equal(found, expected)
    with pytest.raises(InvalidArgumentError, match="scale must be finite and > 0"):
        release(states, generator=seeded(0), scale=0.0)


# Planted bugs: each is a release that a mistake of one line would make.


class TransposedWhitener(SpectralMatrix):  # pyright: ignore[reportGeneralTypeIssues]
    """Whitens with the transposed factor: ``S = L L'`` needs ``L^-1``."""

    def whiten(self, rows: Tensor) -> Tensor:
        factor = torch.linalg.cholesky(self.dense())
        return torch.linalg.solve_triangular(factor.T, rows.T, upper=True).T


class TransposedSampler(SpectralMatrix):  # pyright: ignore[reportGeneralTypeIssues]
    """Samples ``L' e`` in place of ``L e``."""

    def sample(self, n: int, *, generator: torch.Generator) -> Tensor:
        drawn = torch.randn((n, self.hidden_size), dtype=torch.float64, generator=generator)
        return drawn @ torch.linalg.cholesky(self.dense())


class SigmaAsVariance(DiagonalMatrix):  # pyright: ignore[reportGeneralTypeIssues]
    """Takes the standard deviation for the variance."""

    def sample(self, n: int, *, generator: torch.Generator) -> Tensor:
        drawn = torch.randn((n, self.hidden_size), dtype=torch.float64, generator=generator)
        return drawn * self.variances


def planted(covariance: SpectralMatrix | DiagonalMatrix) -> GaussianRelease:
    return GaussianRelease(
        mechanism=AdaptiveOptimum(), budget_nats=BUDGET_NATS, covariance=covariance
    )


def spectral_parts() -> dict:
    covariance = AdaptiveOptimum().fit(GIVEN.geometry, budget_nats=BUDGET_NATS).covariance
    assert isinstance(covariance, SpectralMatrix)
    return {"vectors": covariance.vectors, "values": covariance.values, "rest": covariance.rest}


def test_a_transposed_factor_is_caught():
    with pytest.raises(AssertionError):
        check_whitener(planted(TransposedWhitener(**spectral_parts())), GIVEN)
    sampler = planted(TransposedSampler(**spectral_parts()))
    check_budget(sampler, GIVEN)  # its nominal covariance is right
    with pytest.raises(AssertionError):
        check_samples(sampler, GIVEN)
    with pytest.raises(AssertionError):
        check_whitener(sampler, GIVEN)


def test_sigma_used_as_variance_is_caught():
    covariance = DiagonalInverseFisher().fit(GIVEN.geometry, budget_nats=BUDGET_NATS).covariance
    wrong = SigmaAsVariance(variances=covariance.diagonal())
    check_budget(planted(wrong), GIVEN)
    with pytest.raises(AssertionError):
        check_samples(planted(wrong), GIVEN)
    doubly = DiagonalMatrix(variances=covariance.diagonal().sqrt())
    with pytest.raises(AssertionError):
        check_budget(planted(doubly), GIVEN)


@pytest.mark.parametrize("mechanism", [Isotropic(), DiagonalInverseFisher(), AdaptiveOptimum()])
def test_a_squared_mean_in_place_of_a_mean_square_is_caught(mechanism):
    means = torch.stack([batch.mean(0) for batch in GIVEN.gradients.split(60)])
    wrong = ReleaseGeometry(
        fisher=matrix_from_rows(means / len(means) ** 0.5, shrinkage=FISHER_SHRINKAGE),
        differences=GIVEN.geometry.differences,
        states=GIVEN.geometry.states,
        mean=GIVEN.geometry.mean,
    )
    with pytest.raises(AssertionError):
        check_budget(mechanism.fit(wrong, budget_nats=BUDGET_NATS), GIVEN)


def test_a_squared_mean_of_the_states_is_caught_in_dropout():
    right = Dropout().fit(GIVEN.geometry, budget_nats=BUDGET_NATS)
    assert isinstance(right, DropoutRelease)
    wrong = DropoutRelease(
        mechanism=Dropout(),
        budget_nats=BUDGET_NATS,
        mean_square=GIVEN.geometry.mean.square(),
        odds=right.odds,
    )
    with pytest.raises(AssertionError):
        check_budget(wrong, GIVEN)
    with pytest.raises(AssertionError):
        check_samples(wrong, GIVEN)


def test_the_clean_control_of_the_plants_passes():
    clean = planted(SpectralMatrix(**spectral_parts()))
    check_budget(clean, GIVEN)
    check_samples(clean, GIVEN)
    check_whitener(clean, GIVEN)

"""What every release owes, as checks that a planted bug must fail. None of them trusts our code
for the matrices that it compares with."""

from pathlib import Path

import torch

from hidden.matrix_samples import normal, seeded
from hidden.mechanisms.table import BUDGET_NATS, Calibration, D
from insular.hidden.mechanisms import GaussianRelease, Release, load_release, save_release


def check_budget(release: Release, given: Calibration) -> None:
    """The first-order cost is the one that was asked for, within 1%."""
    realised = float((given.fisher @ release.nominal_covariance.dense()).trace()) / 2
    assert abs(realised / BUDGET_NATS - 1) < 0.01
    assert release.budget_nats == BUDGET_NATS


def check_samples(release: Release, given: Calibration) -> None:
    """What is added has the nominal mean square, within 6 standard errors an entry.

    110 entries of means over 20,000: below 1e-6. A twentieth is for what the states themselves
    add: quantisation is uniform in its cells only nearly.
    """
    released = release.sample(given.states, generator=seeded(11))
    added = released - given.states
    products = added[:, :, None] * added[:, None, :]
    error = products.std(0) / len(added) ** 0.5
    nominal = release.nominal_covariance.dense()
    scale = nominal.diagonal().sqrt()
    slack = 0.0 if release.gaussian else 0.05
    bound = 6 * error + slack * torch.outer(scale, scale) + 1e-12
    assert bool(((products.mean(0) - nominal).abs() <= bound).all())
    assert bool((added.mean(0).abs() <= 6 * added.std(0) / len(added) ** 0.5 + 1e-12).all())


def check_whitener(release: GaussianRelease, given: Calibration) -> None:
    """Whitened lengths are ``x' S^+ x``, and whitened noise is standard."""
    rows = normal(40, D, seed=12)
    inverse = torch.linalg.pinv(release.nominal_covariance.dense(), rtol=1e-9, hermitian=True)
    expected = ((rows @ inverse) * rows).sum(1)
    assert torch.allclose(release.whiten(rows).square().sum(1), expected, rtol=1e-8)
    noise = release.sample(given.states, generator=seeded(13)) - given.states
    white = release.whiten(noise)
    moment = white.T @ white / len(white)
    # a direction has the variance 1, and so does each of at most 10
    if release.covariance.rank == white.shape[1]:
        assert bool(((moment - torch.eye(len(moment))).abs() < 6 * (2 / len(white)) ** 0.5).all())
    assert abs(float(moment.trace()) / release.covariance.rank - 1) < 0.05
    null = release.null_part(noise)
    assert not null.numel() or float(null.abs().max()) < 1e-9
    assert (null.shape[1] == 0) == (release.covariance.rank == D)


def check_scaling(release: Release, given: Calibration) -> None:
    """Scaling moves the nominal covariance, the budget and the samples by the same factor."""
    scaled = release.scaled(0.25)
    nominal = release.nominal_covariance.dense()
    assert torch.allclose(scaled.nominal_covariance.dense(), nominal / 4, rtol=1e-9)
    assert scaled.budget_nats == release.budget_nats / 4
    added = scaled.sample(given.states, generator=seeded(14)) - given.states
    share = float(added.square().mean(0).sum() / nominal.trace())
    assert abs(share / 0.25 - 1) < 0.05
    if isinstance(release, GaussianRelease):
        assert isinstance(scaled, GaussianRelease)
        rows = normal(5, D, seed=15)
        assert torch.allclose(scaled.squared_distance(rows), 4 * release.squared_distance(rows))


def check_file(release: Release, given: Calibration, folder: Path) -> None:
    """A release that was saved and loaded is the same, bit for bit."""
    save_release(release, folder / "release.safetensors")
    loaded = load_release(folder / "release.safetensors")
    assert type(loaded) is type(release)
    assert (loaded.mechanism, loaded.budget_nats) == (release.mechanism, release.budget_nats)
    assert loaded.tensors().keys() == release.tensors().keys()
    for name, tensor in release.tensors().items():
        assert torch.equal(loaded.tensors()[name], tensor)
    one, other = (r.sample(given.states[:50], generator=seeded(16)) for r in (release, loaded))
    assert torch.equal(one, other)
    save_release(loaded, folder / "again.safetensors")
    files = [(folder / f"{name}.safetensors").read_bytes() for name in ("release", "again")]
    assert files[0] == files[1]


def check_plausible(release: Release, given: Calibration) -> None:
    """Clean states are taken for what they are, and other states are not."""
    clean = given.states[:200]
    released = release.sample(clean, generator=seeded(17))
    assert release.implausible(released, clean) == ""
    assert release.implausible(released[:0], clean[:0]) == ""
    assert release.implausible(released, clean.flip(0)) != ""

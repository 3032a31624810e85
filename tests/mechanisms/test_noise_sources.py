"""Sources of noise: what needs OpenDP, and what importing the package costs."""

import subprocess
import sys

import pytest

from insular.errors import InvalidArgumentError, MissingDependencyError
from insular.mechanisms import (
    AnalyticGaussian,
    Count,
    Laplace,
    Noise,
    RandomizedResponse,
    SecureNoise,
    SeededNoise,
    Sum,
)

COUNT = Count(relation="add_or_remove_one", unit="record")


def test_without_opendp_secure_noise_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opendp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opendp", None)
    answers = RandomizedResponse(categories=("a", "b"), truth_prob=0.75, unit="record")
    with pytest.raises(MissingDependencyError, match=r"insular\[statistics\]"):
        Laplace(epsilon=1.0).release(COUNT, [True])
    with pytest.raises(MissingDependencyError, match=r"insular\[statistics\]"):
        answers.release(["a"])
    assert isinstance(Laplace(epsilon=1.0).release(COUNT, [], noise=SeededNoise(1)).value, int)


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, insular.mechanisms as m; m.Laplace(epsilon=1.0); "
        "heavy = {'torch', 'numpy', 'scipy', 'opendp', 'dp_accounting'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_secure_noise_does_not_follow_a_seed() -> None:
    """A program that seeds every generator it knows of gets fresh noise all the same."""
    import random

    import numpy as np

    drawn = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        drawn.append(SecureNoise().laplace(2.0**31, 4))
    assert drawn[0] != drawn[1]


def test_a_refused_release_draws_nothing() -> None:
    noise, fresh = SeededNoise(5), SeededNoise(5)
    with pytest.raises(InvalidArgumentError):
        Laplace(epsilon=1.0).release(COUNT, [True, "yes"], noise=noise)
    assert noise.laplace(1000.0, 3) == fresh.laplace(1000.0, 3)


@pytest.mark.parametrize("noise", [SeededNoise(1), SecureNoise()], ids=["seeded", "secure"])
def test_no_bit_of_the_sum_shows_what_was_added(noise: Noise) -> None:
    """Neighbours reach the same floats; a float added to a float would leave its own pattern."""
    query = Sum(lower=0.0, upper=1.0, relation="add_or_remove_one", unit="record")
    for mechanism in (Laplace(epsilon=1.0), AnalyticGaussian(epsilon=1.0, delta=1e-5)):
        for data in ([], [0.1], [1 / 3], [0.7, 1e-17]):
            values = [mechanism.release(query, data, noise=noise).value for _ in range(20)]
            assert all(isinstance(x, float) and (x * 2**31).is_integer() for x in values)

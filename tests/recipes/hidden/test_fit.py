"""One release as a file: what was measured is what is saved, and nothing where there is none."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from insular.errors import AccountingError, InvalidArgumentError
from insular.evidence import RunStore
from insular.hidden.matrices.draws import SecureDraws
from insular.hidden.mechanisms import load_release
from insular.recipes.hidden import fit as hidden_fit
from insular.recipes.hidden.bench import Bench
from insular.recipes.hidden.fit import RELEASE, fit_release
from insular.recipes.hidden.session import HiddenRun
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.sweep.results import SweepCell
from recipes.hidden_samples import tiny_sweep

COMMAND = ("insular", "hidden", "fit")


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> SweepSpec:
    folder = tmp_path_factory.mktemp("fit")
    given = tiny_sweep(folder)
    return replace(
        given, layers=given.layers[:1], mechanisms=("diagonal-inverse-fisher",), kl_nats=(0.1,)
    )


@pytest.fixture(scope="module")
def fitted(spec: SweepSpec, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SweepCell]:
    out = tmp_path_factory.mktemp("fitted") / "run"
    return out, fit_release(spec, out, command=COMMAND)


def test_what_is_saved_is_what_was_measured(
    spec: SweepSpec, fitted: tuple[Path, SweepCell]
) -> None:
    out, cell = fitted
    assert cell.status == "reached" and cell.scale is not None
    release = load_release(out / RELEASE)
    nominal = Bench(spec, out / "states").release(
        cell.layer, "diagonal-inverse-fisher", budget_nats=0.1
    )
    torch.testing.assert_close(
        release.nominal_covariance.diagonal(),
        nominal.nominal_covariance.diagonal() * cell.scale**2,
    )
    assert RELEASE in RunStore.open(out).manifest.files


def test_the_file_releases_states_with_secure_draws(fitted: tuple[Path, SweepCell]) -> None:
    out, _ = fitted
    release = load_release(out / RELEASE)
    states = torch.zeros(3, release.hidden_size)
    released = release(states, generator=SecureDraws())
    assert released.dtype == states.dtype
    assert not bool((released == release(states, generator=SecureDraws())).any())


def test_a_target_that_no_scale_reaches_leaves_no_file(
    spec: SweepSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    cell = SweepCell(
        layer=spec.layers[0],
        mechanism="diagonal-inverse-fisher",
        gaussian=True,
        target_kl_nats=0.1,
        repeat=0,
        status="too_weak",
    )
    monkeypatch.setattr(hidden_fit, "cell_tasks", lambda spec, folder: [])
    monkeypatch.setattr(HiddenRun, "run", lambda self, tasks, name: [cell])
    with pytest.raises(AccountingError, match="stays where the model does not look"):
        fit_release(spec, out, command=COMMAND)
    assert not (out / RELEASE).exists()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"layers": (0, 1)}, "layer"),
        ({"mechanisms": ("isotropic", "dropout")}, "mechanism"),
        ({"mechanisms": ()}, "mechanism"),
        ({"kl_nats": (0.1, 0.3)}, "kl"),
        ({"repeats": 2}, "repeats"),
    ],
)
def test_several_are_refused(
    spec: SweepSpec, tmp_path: Path, changes: dict[str, object], name: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be one to fit a release, got"):
        fit_release(replace(spec, **changes), tmp_path / "run", command=COMMAND)

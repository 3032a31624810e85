"""Cells of a sweep: scaled to a measured KL, attacked, or told why not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from insular.accounting import pair_epsilon
from insular.errors import InvalidArgumentError
from insular.hidden.mechanisms import GaussianRelease
from insular.recipes.hidden import bench as hidden_bench
from insular.recipes.hidden.bench import Bench, bench_of, forget_bench
from insular.recipes.hidden.spec import MECHANISM_KINDS, SweepSpec
from insular.recipes.hidden.sweep.cells import attacks_on, cell_tasks, run_cell
from insular.recipes.hidden.sweep.results import SweepCell, SweepResult
from insular.recipes.hidden.sweep.run import sweep_hidden
from insular.recipes.hidden.text import Prompts, choose_prompts
from recipes.hidden_samples import tiny_sweep


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cells")


@pytest.fixture(scope="module")
def spec(folder: Path) -> SweepSpec:
    """Every mechanism, at a KL that a tiny decoder has and one that it has not."""
    return tiny_sweep(folder, mechanisms=(), kl_nats=(0.01, 0.3, 60.0))


@pytest.fixture(scope="module")
def swept(spec: SweepSpec, folder: Path) -> SweepResult:
    return sweep_hidden(spec, folder / "run", states=folder / "states", command=())


def cells(result: SweepResult, *, gaussian: bool = True) -> list[SweepCell]:
    return [cell for cell in result.attacked if cell.gaussian is gaussian]


def test_every_layer_mechanism_kl_and_repeat_has_a_cell(
    spec: SweepSpec, swept: SweepResult
) -> None:
    found = [(c.layer, c.mechanism, c.target_kl_nats, c.repeat) for c in swept.cells]
    assert found == [(0, name, kl, 0) for name in MECHANISM_KINDS for kl in spec.kl_nats]
    close = replace(spec, kl_nats=(0.1, 0.1000000001), repeats=2, layers=(0, 1))
    slugs = {task.slug for task in cell_tasks(close, Path())}
    assert len(slugs) == 2 * 2 * 2 * len(MECHANISM_KINDS)


def test_reached_cells_cost_their_target_on_calibration_prompts(swept: SweepResult) -> None:
    assert {cell.mechanism for cell in swept.attacked} >= set(MECHANISM_KINDS) - {
        "dropout",
        "quantization",
    }
    for cell in swept.attacked:
        assert cell.calibrated_kl_nats == pytest.approx(cell.target_kl_nats, rel=0.02)
        assert cell.utility is not None and cell.utility.n_prompts == 20
        assert [attack.n_queries for attack in cell.attacks] == [30, 30, 30]
        assert cell.seconds > 0


def test_unreachable_targets_give_their_status_and_are_not_attacked(swept: SweepResult) -> None:
    missed = [cell for cell in swept.cells if cell.status != "reached"]
    assert {c.status for c in missed if c.target_kl_nats == 60} == {"too_weak"}
    assert {c.status for c in missed if c.target_kl_nats == 0.01} == {"jumps"}
    assert len([c for c in swept.cells if c.target_kl_nats == 60]) == len(MECHANISM_KINDS)
    for cell in missed:
        assert cell.scale is cell.utility is cell.top1 is cell.agreement is None
        assert cell.attacks == () and cell.predicted_top1 is None


def test_distances_and_epsilon_are_those_of_the_states(
    spec: SweepSpec, swept: SweepResult, folder: Path
) -> None:
    here = bench_of(spec, folder / "states").at(0)
    apart = torch.cdist(here.bank[:30], here.bank)
    apart[torch.arange(30), torch.arange(30)] = torch.inf
    typical, near = apart[~apart.isinf()].median(), apart.min(1).values.median()
    isotropic = [cell for cell in swept.attacked if cell.mechanism == "isotropic"]
    for cell in isotropic:
        assert cell.scale and cell.distance and cell.near_distance
        variance = cell.scale**2 * 2 * cell.target_kl_nats / here.random.fisher.trace()
        assert cell.distance == pytest.approx(float(typical) / variance**0.5, rel=1e-6)
        assert cell.near_distance == pytest.approx(float(near) / variance**0.5, rel=1e-6)
        assert cell.epsilon == pytest.approx(pair_epsilon(cell.distance, 1e-5), rel=1e-3)
        assert cell.near_epsilon == pytest.approx(pair_epsilon(cell.near_distance, 1e-5), rel=1e-3)
    epsilons = [cell.epsilon for cell in isotropic]
    assert len(epsilons) == 2 and epsilons[0] > epsilons[1] > 0  # type: ignore[operator]


def test_only_noise_in_every_direction_has_an_epsilon(swept: SweepResult) -> None:
    low_rank = ("complement", "fisher-complement", "generalized-eigen")
    for cell in swept.attacked:
        assert (cell.epsilon is not None) == (cell.gaussian and cell.mechanism not in low_rank)
        assert cell.gaussian == (cell.mechanism not in ("quantization", "dropout"))
        if cell.mechanism in low_rank:  # the aware attacker looks where there is no noise
            assert cell.attacks[-1].top_1.value == cell.predicted_top1 == 1.0
        if cell.gaussian:
            assert cell.predicted_top1 is not None and 0 <= cell.predicted_top1 <= 1


def test_the_plain_attacker_is_brute_force_on_the_same_release(
    spec: SweepSpec, swept: SweepResult, folder: Path
) -> None:
    bench = bench_of(spec, folder / "states")
    name = "generalized-eigen-floor"  # found in part only, so that the count says something
    (cell,) = (c for c in swept.attacked if c.mechanism == name and c.target_kl_nats == 0.3)
    assert cell.scale is not None
    release = bench.release(0, name, budget_nats=0.3).scaled(cell.scale**2)
    bank = bench.at(0).bank
    released = release.sample(bank[:30], generator=torch.Generator().manual_seed(spec.seed + 2))
    found = torch.cdist(released, bank).argmin(1) == torch.arange(30)
    assert 0 < cell.attacks[0].top_1.count < 30
    assert int(found.sum()) == cell.attacks[0].top_1.count


def test_repeats_draw_other_noise(spec: SweepSpec, folder: Path) -> None:
    one, two = (
        run_cell(
            spec, folder / "states", 0, "isotropic", 0.3, repeat, progress=lambda line: None
        ).result
        for repeat in (0, 1)
    )
    assert one.scale != two.scale and one.utility.seed == 1 and two.utility.seed == 4


def test_a_mechanism_that_cannot_be_fitted_has_a_reason_and_the_sweep_goes_on(
    folder: Path, tmp_path: Path
) -> None:
    spec = tiny_sweep(
        folder, mechanisms=("generalized-eigen", "isotropic"), fit=10, rank=16, kl_nats=(0.03,)
    )
    result = sweep_hidden(spec, tmp_path / "run", command=())
    bad, good = result.cells
    assert bad.status == "not fitted" and bad.attacks == () and bad.utility is None
    assert bad.reason.startswith("rank must be at most 9, the directions that the rows determine")
    assert good.status == "reached" and good.reason == ""
    page = (tmp_path / "run" / "report.html").read_text()
    assert "generalized-eigen at layer 0 was not fitted: rank must be at most 9" in page


def mixed_calibration(prompts: Prompts) -> Prompts:
    """Scaled on prompts that are evaluated."""
    return replace(prompts, calibration=prompts.bank[:20])


def mixed_fit(prompts: Prompts) -> Prompts:
    """Fitted on prompts that are evaluated."""
    return replace(prompts, fit=(*prompts.fit[:-1], prompts.bank[3]))


def mixed_queries(prompts: Prompts) -> Prompts:
    """Scaled on prompts that are attacked, and not evaluated."""
    return replace(prompts, calibration=(*prompts.calibration[:-1], prompts.bank[25]))


def unmixed(prompts: Prompts) -> Prompts:
    """Scaled on a candidate that is never a query: the clean control."""
    return replace(prompts, calibration=(*prompts.calibration[:-1], prompts.bank[45]))


@pytest.mark.parametrize(
    ("plant", "shared"), [(mixed_calibration, 20), (mixed_fit, 1), (mixed_queries, 1), (unmixed, 0)]
)
def test_a_query_that_shaped_or_scaled_a_release_is_refused(
    plant,
    shared: int,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hidden_bench, "choose_prompts", lambda *of: plant(choose_prompts(*of)))
    spec = tiny_sweep(folder, mechanisms=("isotropic",), kl_nats=(0.03,))
    forget_bench()
    if not shared:
        assert sweep_hidden(spec, tmp_path / "run", command=()).attacked
        return
    with pytest.raises(InvalidArgumentError, match=f"must be disjoint, got {shared} in both"):
        sweep_hidden(spec, tmp_path / "run", command=())
    assert not (tmp_path / "run" / "results.json").exists()
    forget_bench()


def test_all_attackers_see_the_same_releases(spec: SweepSpec, folder: Path) -> None:
    bench = bench_of(spec, folder / "states")
    release = bench.release(0, "isotropic", budget_nats=0.3).scaled(16.0)
    assert isinstance(release, GaussianRelease)
    plain, subspace, aware = attacks_on(bench, 0, release, seed=5)
    assert plain.top_1 == aware.top_1 and plain.median_rank == aware.median_rank
    assert (plain.attacker, aware.attacker) == ("euclidean", "aware of isotropic")
    assert subspace.attacker not in (plain.attacker, aware.attacker)
    again = attacks_on(bench, 0, release, seed=5)
    assert again == (plain, subspace, aware)
    assert attacks_on(bench, 0, release, seed=6) != again


def test_a_process_keeps_one_bench_and_loads_nothing_twice(
    spec: SweepSpec, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_of(spec, folder / "states")
    fitted = bench.release(0, "isotropic", budget_nats=1.0)
    monkeypatch.setattr(Bench, "_read", lambda self, layer: pytest.fail("read again"))
    assert bench_of(spec, folder / "states") is bench
    assert bench.release(0, "isotropic", budget_nats=2.0).budget_nats == pytest.approx(2.0)
    assert bench.release(0, "isotropic", budget_nats=1.0).mechanism is fitted.mechanism
    other = bench_of(replace(spec, rank=4), folder / "states")
    assert other is not bench
    forget_bench()

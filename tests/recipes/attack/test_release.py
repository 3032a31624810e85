"""A tiny audit's pair, released many times: evidence, verdicts, resuming, refusals."""

import html
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insular.accounting.pair import pair_epsilon
from insular.audit.audit_results import AuditResult
from insular.audit.statistics.scores import tradeoff_bound
from insular.errors import EvidenceError, InvalidArgumentError
from insular.evidence import RunStore, digest_array, from_toml
from insular.recipes.attack.release import draws as attack_release
from insular.recipes.attack.release import run as attack
from insular.recipes.attack.release.results import ReleaseResult
from insular.recipes.attack.release.run import attack_releases, write_page
from insular.recipes.attack.release.spec import ReleaseSpec
from insular.recipes.audit.run import audit_stack
from insular.recipes.audit.spec import AuditSpec
from insular.recipes.pages import write_page_of
from insular.recipes.run_folder import begin_run, read_settings

Run = tuple[Path, AuditResult]


def text_of(page: str) -> str:
    """What a reader sees of a page."""
    body = re.sub(r"<svg.*?</svg>|<style.*?</style>|<sup>.*?</sup>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", body)).split())


@pytest.fixture(scope="module")
def spec(tiny_run: Run) -> ReleaseSpec:
    return ReleaseSpec(run=str(tiny_run[0]), draws=600, shard_draws=256)


@pytest.fixture(scope="module")
def released(
    spec: ReleaseSpec, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, ReleaseResult]:
    out = tmp_path_factory.mktemp("attack") / "run"
    return out, attack_releases(spec, out, command=("insular", "attack", "release"))


def test_the_stack_under_test_and_its_first_repair_are_released_by_default(
    released: tuple[Path, ReleaseResult], tiny_run: Run
) -> None:
    _, result = released
    sensitivity = tiny_run[1].sensitivity
    assert sensitivity is not None
    assert [stack.stack for stack in result.stacks] == ["llm-int8", "record-owned"]
    assert result.record == sensitivity.screen.selected.record
    assert result.noise_multiplier == 1.0 and result.expected_batch_size == 4
    for stack, arm in zip(result.stacks, sensitivity.arms, strict=False):
        assert stack.ratio == pytest.approx(arm.radii[0].ratio, rel=1e-5)
        assert stack.mu == stack.ratio and stack.claimed_mu == 1.0
        assert stack.draws == 600
        assert stack.claimed_epsilons == tuple(pair_epsilon(1.0, d) for d in (1e-3, 1e-5, 1e-6))
        assert stack.tradeoff.significance == 0.025  # two stacks share the run's error
        assert {point.significance for point in stack.points} == {0.025}


def test_every_statistic_is_kept_with_its_seed_and_digest(
    released: tuple[Path, ReleaseResult],
) -> None:
    out, result = released
    store = RunStore.open(out)
    store.verify()
    assert store.manifest.kind == "attack.release" and store.manifest.status == "complete"
    stack = result.stacks[0]
    scores: dict[bool, list[np.ndarray]] = {False: [], True: []}
    for shard in stack.shards:
        assert shard.scores is not None
        found = store.read_arrays(shard.scores)["scores"]
        assert digest_array(found) == shard.digest and len(found) == shard.n
        assert found.mean() == pytest.approx(shard.mean)
        assert abs(shard.mean - (1 if shard.with_record else -1) * stack.mu / 2) < 0.4
        assert 0.8 < shard.std < 1.2
        scores[shard.with_record].append(found)
    assert [shard.n for shard in stack.shards if shard.with_record] == [256, 256, 88]
    draws = (np.concatenate(scores[side]) for side in (False, True))
    assert tradeoff_bound(*draws, claim=1.0, significance=0.025) == stack.tradeoff
    assert len({shard.seed for one in result.stacks for shard in one.shards}) == 12


def test_the_adapter_before_the_step_is_the_audits_own(
    released: tuple[Path, ReleaseResult], tiny_run: Run
) -> None:
    out, result = released
    (file,) = (out / "arrays").glob("start-*.safetensors")
    from safetensors.numpy import load_file

    start = load_file(file)["adapter"]
    assert start.dtype == np.float32
    assert len(start) == result.n_params == tiny_run[1].subject.manifest.n_params
    assert 0.3 < (start != 0).mean() < 0.7  # A is drawn, B is 0
    assert result.start == "the audit's own adapter, seed 0"


@pytest.fixture(scope="module")
def centred(tiny_whole: AuditSpec, tmp_path_factory: pytest.TempPathFactory) -> ReleaseSpec:
    """A callable with a planted bug: features centred over the batch."""
    out = tmp_path_factory.mktemp("centred") / "audit"
    audit = AuditSpec(
        subject="audit.centred_subject:make_subject",
        text=tiny_whole.text,
        id_field="id",
        batch=4,
        tokens=16,
        parts=("isolation", "sensitivity"),
    )
    audit_stack(audit, out, command=())
    return ReleaseSpec(run=str(out), draws=80_000, shard_draws=40_000)


def test_a_planted_coupling_is_refuted_by_its_releases(
    centred: ReleaseSpec, tmp_path: Path
) -> None:
    result = attack_releases(centred, tmp_path / "run", command=())
    (stack,) = result.stacks
    assert stack.ratio == pytest.approx(1.0546, abs=1e-4)
    assert stack.chance is not None and stack.chance > 0.99
    assert stack.draws_needed is not None and stack.draws_needed < 80_000
    assert stack.verdict == result.verdict == "refuted" and result.exit_code == 1
    assert not any(stack.points_refuted)  # the curve is refuted, and no single point of it
    assert result.start.startswith("zeros: the audited callable")
    page = text_of((tmp_path / "run" / "report.html").read_text())
    assert "is REFUTED" in page and "No single point (epsilon, delta) is refuted" in page


def test_a_clean_pair_is_not_refuted(spec: ReleaseSpec, tmp_path: Path) -> None:
    more = replace(spec, draws=4000, shard_draws=2000, stacks=("record-owned", "singleton"))
    result = attack_releases(more, tmp_path / "run", command=())
    for stack in result.stacks:
        assert stack.ratio <= 1 + stack.margin
        assert stack.verdict == "not refuted"
        assert stack.draws_needed is None and stack.chance is None
    assert result.verdict == "not refuted" and result.exit_code == 0


def test_the_exact_scalar_agrees_and_is_named(centred: ReleaseSpec, tmp_path: Path) -> None:
    ideal = replace(centred, statistic="exact-scalar")
    result = attack_releases(ideal, tmp_path / "run", command=())
    assert result.verdict == "refuted"
    assert result.stacks[0].tradeoff.mu_lower_bound == pytest.approx(1.03, abs=0.03)
    assert "EXACT SCALAR" in text_of((tmp_path / "run" / "report.html").read_text())


def test_too_few_draws_for_the_measured_excess_decide_nothing(
    centred: ReleaseSpec, tmp_path: Path
) -> None:
    result = attack_releases(replace(centred, draws=2000), tmp_path / "run", command=())
    (stack,) = result.stacks
    assert stack.verdict == "undecided" and result.exit_code == 2
    assert stack.chance is not None and stack.chance < 0.8
    assert "UNDECIDED" in text_of((tmp_path / "run" / "report.html").read_text())


def test_more_noise_is_another_promise(centred: ReleaseSpec, tmp_path: Path) -> None:
    quiet = replace(centred, draws=1000, noise_multiplier=0.1)
    (stack,) = attack_releases(quiet, tmp_path / "run", command=()).stacks
    assert stack.claimed_mu == pytest.approx(10)
    assert stack.mu == pytest.approx(10.546, abs=1e-3)


def test_a_stopped_run_keeps_its_shards_and_ends_with_the_same_numbers(
    spec: ReleaseSpec,
    released: tuple[Path, ReleaseResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, done = tmp_path / "run", []
    real = attack_release.run_shard

    def stopping(*arguments: object, **more: object) -> object:
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(arguments)
        return real(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(attack_release, "run_shard", stopping)
    with pytest.raises(KeyboardInterrupt):
        attack_releases(spec, out, command=())
    assert RunStore.open(out).manifest.status == "interrupted"
    kept = {file: file.stat().st_mtime_ns for file in out.glob("llm-int8-*.json")}
    assert len(kept) == 5
    monkeypatch.undo()
    again = attack_releases(spec, out, command=(), workers=2)
    assert all(file.stat().st_mtime_ns == time for file, time in kept.items())
    for one, two in zip(again.stacks, released[1].stacks, strict=True):
        assert one.tradeoff == two.tradeoff and one.points == two.points
        assert [s.digest for s in one.shards] == [s.digest for s in two.shards]


def test_the_page_says_which_claim_was_tested(released: tuple[Path, ReleaseResult]) -> None:
    out, result = released
    page = text_of((out / "report.html").read_text())
    assert "the promised trade-off curve, that of one Gaussian step of mu 1" in page
    assert "Single points (epsilon, delta)" in page
    assert f"{result.stacks[0].tradeoff.mu_lower_bound:.4f}" in page
    before = (out / "report.html").read_bytes()
    assert write_page_of(out).read_bytes() == before
    assert write_page(RunStore.open(out)).read_bytes() == before


def test_evidence_is_strict_and_without_text(
    released: tuple[Path, ReleaseResult], spec: ReleaseSpec
) -> None:
    out, result = released
    store = RunStore.open(out)
    assert store.read_result("results", ReleaseResult) == result
    assert read_settings(store, ReleaseSpec) == spec
    assert from_toml(ReleaseSpec, (out / "run.toml").read_text()) == spec
    for file in out.glob("*.json"):
        assert " w1 " not in file.read_text()
    assert json.loads((out / "manifest.json").read_text())["inputs"][0]["name"] == "audit"


def test_a_finished_or_another_run_is_not_touched(
    released: tuple[Path, ReleaseResult], spec: ReleaseSpec, tiny_run: Run, tmp_path: Path
) -> None:
    with pytest.raises(EvidenceError, match="already holds a complete run"):
        attack_releases(spec, released[0], command=())
    with pytest.raises(InvalidArgumentError, match="another folder than what is read"):
        attack_releases(spec, tiny_run[0], command=())
    half = tmp_path / "half"
    bad = replace(spec, stacks=("llm-int8",), draws=4)
    store = begin_run(attack.KIND, half, bad, command=(), inputs=())
    store.finish("failed")
    with pytest.raises(EvidenceError, match="unfinished run with other settings or another audit"):
        attack_releases(spec, half, command=())


def test_what_cannot_be_released_is_refused(
    released: tuple[Path, ReleaseResult], spec: ReleaseSpec, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(InvalidArgumentError, match="stacks must be arms of .*; got nf5"):
        attack_releases(replace(spec, stacks=("nf5",)), out, command=())
    with pytest.raises(EvidenceError, match="must hold a complete audit.isolation run, got a comp"):
        attack_releases(replace(spec, run=str(released[0])), out, command=())
    with pytest.raises(EvidenceError, match="is not a run folder"):
        attack_releases(replace(spec, run=str(tmp_path)), out, command=())
    assert not os.path.exists(out)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": 3}, "draws must be an integer >= 4"),
        ({"statistic": "half"}, "statistic must be one of full-vector, exact-scalar"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must be finite and > 0"),
        ({"significance": 1.5}, "significance must be from 0 to 1"),
        ({"deltas": ()}, "deltas must be an integer >= 1"),
        ({"stacks": ("nf4", "nf4")}, "stacks must be different ones"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        ReleaseSpec(run="x", **change)  # type: ignore[arg-type]

"""Sensitivity, census, localisation and price of a whole audit; resuming it at any moment."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insular.accounting.composition import composed_epsilon
from insular.accounting.pair import pair_epsilon
from insular.audit.audit_results import AuditResult
from insular.audit.reconciliation import reconcile
from insular.errors import EvidenceError
from insular.evidence import RunStore, to_toml
from insular.recipes.audit.comparison import measured
from insular.recipes.audit.replay import replay
from insular.recipes.audit.run import audit_stack
from insular.recipes.audit.spec import REPAIRS, AuditSpec
from recipes.tiny_run import tickets, tiny_folder


def test_the_native_stack_is_measured_and_every_repair_stays_within_the_bound(
    tiny_run: tuple[Path, AuditResult],
) -> None:
    _, result = tiny_run
    found = result.sensitivity
    assert found is not None
    assert [arm.stack for arm in found.arms] == ["llm-int8", *REPAIRS]
    assert all(arm.valid for arm in found.arms)
    native, *repairs = found.arms
    assert native.n_altered > 0
    for arm in repairs:
        assert arm.n_altered == 0, arm.stack
        assert all(at.ratio <= 1 + 1e-4 and at.repeat_ratio == 0 for at in arm.radii), arm.stack


def test_every_candidate_is_kept_and_the_largest_ratio_selected(
    tiny_run: tuple[Path, AuditResult], tiny_whole: AuditSpec
) -> None:
    _, result = tiny_run
    assert result.sensitivity is not None
    screen = result.sensitivity.screen
    assert len(screen.candidates) == 10 - (tiny_whole.batch - 1)
    assert not {c.record for c in screen.candidates} & set(screen.baseline)
    assert screen.largest == max(max(c.ratios) for c in screen.candidates)
    assert screen.repeatable and screen.margin == 1e-4
    own = screen.radii.index(screen.clip_norm)
    validated = result.sensitivity.arms[0].radii[0]
    assert validated.ratio == pytest.approx(screen.selected.ratios[own], rel=1e-12)


def test_the_price_is_the_accountants(
    tiny_run: tuple[Path, AuditResult], tiny_whole: AuditSpec
) -> None:
    _, result = tiny_run
    assert result.sensitivity is not None
    price, arm = result.sensitivity.price, result.sensitivity.arms[0]
    claimed, now, bound = price.rows
    assert claimed.step_epsilon == pytest.approx(4.3772, abs=1e-4)
    assert now.ratio == arm.radii[0].ratio
    assert now.step_epsilon == pytest.approx(pair_epsilon(now.ratio, 1e-5), rel=1e-9)
    assert bound.ratio == 2 * arm.n_altered + 1
    assert claimed.run_epsilon == composed_epsilon(
        1.0, sampling_prob=tiny_whole.sampling_prob, steps=tiny_whole.steps, delta=1e-5
    )
    assert claimed.run_epsilon <= bound.run_epsilon


def test_every_distance_with_gradients_is_computed_again(
    tiny_run: tuple[Path, AuditResult],
) -> None:
    _, result = tiny_run
    again = result.reconciliation
    assert again is not None and again.agrees and again.n_unsaved == 0
    assert result.sensitivity is not None and result.localisation is not None
    screen = result.sensitivity.screen
    assert again.n_distances >= len(screen.candidates) * (len(screen.radii) + 1)


def test_a_reported_distance_that_the_arrays_do_not_give_is_named(
    tiny_run: tuple[Path, AuditResult],
) -> None:
    out, result = tiny_run
    store = RunStore.open(out)
    assert result.sensitivity is not None
    arm = result.sensitivity.arms[1]
    wrong = replace(
        arm, radii=(replace(arm.radii[0], ratio=arm.radii[0].ratio + 1e-6), arm.radii[1])
    )
    arms = (result.sensitivity.arms[0], wrong, *result.sensitivity.arms[2:])
    planted = replace(result, sensitivity=replace(result.sensitivity, arms=arms))
    again = reconcile(planted, store.read_arrays, stabiliser=0.0)
    assert again.mismatches == (f"validation, {arm.stack}, radius {arm.radii[0].radius:g}",)


def test_a_mismatch_fails_the_run_and_keeps_the_results(
    tiny_whole: AuditSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import insular.audit.reconciliation as module

    unpack = module.unpack_rows
    monkeypatch.setattr(module, "unpack_rows", lambda *a: unpack(*a) * np.float32(1.001))
    spec = replace(tiny_whole, parts=("isolation", "sensitivity"), repairs=(), clip_norm=50.0)
    with pytest.raises(EvidenceError, match="distances must agree with the saved gradients"):
        audit_stack(spec, tmp_path / "run", command=())
    store = RunStore.open(tmp_path / "run")
    assert store.manifest.status == "failed"
    assert store.read_result("results", AuditResult).reconciliation is not None
    assert "must agree" in store.failures()[0].message


def test_gradients_of_the_pair_alone_can_be_kept(tiny_whole: AuditSpec, tmp_path: Path) -> None:
    spec = replace(
        tiny_whole, parts=("isolation", "sensitivity"), repairs=(), keep_gradients="pair"
    )
    result = audit_stack(spec, tmp_path / "run", command=())
    assert result.sensitivity is not None and result.reconciliation is not None
    assert all(c.gradients is None for c in result.sensitivity.screen.candidates)
    assert result.sensitivity.arms[0].gradients is not None
    assert result.reconciliation.agrees and result.reconciliation.n_unsaved > 0


@pytest.mark.parametrize("family", ["opt", "gpt2"])
def test_the_same_protocol_on_other_families(family: str, tmp_path: Path) -> None:
    spec = AuditSpec(
        model=str(tiny_folder(tmp_path / family, family=family)),
        text=str(tickets(tmp_path / "tickets.jsonl", first_loud=4)),  # a quiet baseline
        id_field="id",
        batch=4,
        tokens=16,
        repairs=("record-owned",),
    )
    result = audit_stack(spec, tmp_path / "run", command=())
    assert result.verdict == "coupled"
    assert result.sensitivity is not None and result.census is not None
    native, owned = result.sensitivity.arms
    assert native.valid and owned.valid
    assert native.n_altered > 0 == owned.n_altered
    assert owned.radii[0].ratio <= 1 + 1e-4
    assert result.census.largest.n_altered > 0
    assert result.localisation is not None
    origins, steps = result.localisation.origins, result.localisation.interventions
    assert origins is not None and origins.originating("forward")
    assert steps is not None and steps.exact
    forced = steps.step("D's masks everywhere")
    assert forced is not None and forced.valid and forced.ratio <= 1 + 1e-4


def test_a_run_that_is_stopped_after_any_write_ends_with_the_same_numbers(
    tiny_run: tuple[Path, AuditResult],
    tiny_whole: AuditSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "run"
    write = RunStore._write
    rng = random.Random(3)
    allowed = [0]

    def limited(store: RunStore, file: str, data: bytes | str) -> None:
        if allowed[0] == 0:
            raise KeyboardInterrupt
        allowed[0] -= 1
        write(store, file, data)

    monkeypatch.setattr(RunStore, "_write", limited)
    for _ in range(60):
        allowed[0] = rng.randint(1, 12)
        try:
            result = audit_stack(tiny_whole, out, command=())
        except KeyboardInterrupt:
            RunStore.open(out).verify()
            continue
        break
    else:
        pytest.fail("the run never came to its end")
    assert repr(measured(result)) == repr(measured(tiny_run[1]))
    RunStore.open(out).verify()


def test_a_run_that_is_killed_at_any_moment_ends_with_the_same_numbers(
    tiny_run: tuple[Path, AuditResult], tiny_whole: AuditSpec, tmp_path: Path
) -> None:
    out, config = tmp_path / "run", tmp_path / "run.toml"
    config.write_text(to_toml(tiny_whole))
    command = [sys.executable, "-m", "insular.cli.app", "audit", "--config", str(config)]
    command += ["--out", str(out), "--workers", "1", "--quiet"]
    rng = random.Random(5)
    for _ in range(3):
        before = _n_files(out)
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        deadline = time.monotonic() + 120
        while _n_files(out) <= before and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(rng.random() * 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    result = audit_stack(tiny_whole, out, command=())
    assert repr(measured(result)) == repr(measured(tiny_run[1]))
    assert replay(out, only_subject=True).reproduced


def _n_files(out: Path) -> int:
    """Files that the manifest of a run in progress lists."""
    try:
        return len(RunStore.open(out).manifest.files)
    except EvidenceError:
        return 0

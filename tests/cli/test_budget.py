"""``insular budget`` as a user meets it: users' troubles with the right answers, and bad input."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli.in_process import Done, insular
from insular.accounting import PrivacyCost, Refusal, spend
from insular.evidence import decode
from insular.recipes.budget.results import (
    CalibrationResult,
    CurveResult,
    EpsilonResult,
    GroupResult,
    PairResult,
)


def run(q: object, noise: object, steps: object) -> list[str]:
    return [
        "--sampling-prob", str(q), "--noise-multiplier", str(noise), "--steps", str(steps)
    ]  # fmt: skip


def epsilon_of(*arguments: str) -> EpsilonResult:
    done = insular("budget", "epsilon", *arguments, "--json", "-")
    assert done.code == 0, done.stderr
    return decode(EpsilonResult, done.stdout)


def refused(*arguments: str) -> str:
    done = insular("budget", *arguments)
    assert done.code == 2, done.stdout
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("insular: ")
    return line


def by_accountant(result: EpsilonResult) -> dict[str, PrivacyCost | Refusal]:
    return {row.accountant: row for row in result.rows}


def test_a_large_delta_is_zero_and_never_negative() -> None:
    for delta, expected in ((0.9, 0), (0.5, 0), (0.1, 0), (0.07, 0), (0.06, 0.0201681)):
        result = epsilon_of(*run(1, 10, 3), "--delta", str(delta))
        assert result.headline.epsilon == pytest.approx(expected, abs=1e-6)
        assert all(row.epsilon >= 0 for row in result.rows if isinstance(row, PrivacyCost))


def test_an_estimate_below_the_truth_is_never_the_answer() -> None:
    arguments = (*run(0.2, 3, 50), "--delta", "2.0833333333333333e-05")
    result = epsilon_of(*arguments)
    rows = by_accountant(result)
    assert 1.9603 <= result.headline.epsilon <= 1.9625
    assert result.headline.standing == "guarantee"
    assert rows["gdp-clt"].standing == "estimate"  # type: ignore[union-attr]
    assert rows["gdp-clt"].epsilon < result.headline.epsilon  # type: ignore[union-attr]
    words = insular("budget", "epsilon", *arguments).stdout
    line = next(line for line in words.splitlines() if "central limit" in line)
    assert "ESTIMATE" in line and "guarantee" not in line


@pytest.mark.parametrize(
    ("q", "noise", "steps", "truth"),
    [(0.2, 1, 500, 38.1702), (0.01, 0.25, 1000, 121.617), (1, 0.01, 1, 5425.51)],
)
def test_high_epsilon_is_a_finite_honest_number(
    q: float, noise: float, steps: int, truth: float
) -> None:
    result = epsilon_of(*run(q, noise, steps), "--delta", "1e-5")
    for row in result.rows:
        if isinstance(row, PrivacyCost) and row.standing == "guarantee":
            assert truth - 0.01 <= row.epsilon < math.inf
    assert result.headline.epsilon <= truth + max(0.03, 1e-3 * truth)


def test_nothing_costs_nothing_and_no_noise_costs_everything() -> None:
    for arguments in (run(0.01, 1, 0), run(0, 1, 100)):
        result = epsilon_of(*arguments, "--delta", "1e-5")
        assert {row.epsilon for row in result.rows if isinstance(row, PrivacyCost)} == {0.0}
    assert insular("budget", "epsilon", *run(0.01, 0, 1), "--delta", "1e-5", "--quiet") == Done(
        0, "inf\n", ""
    )


def test_one_step_more_than_planned_is_counted() -> None:
    for steps, expected in ((1, 0.19945), (100, 0.718037), (101, 0.720335)):
        done = insular("budget", "epsilon", *run(0.01, 1, steps), "--delta", "1e-5", "--quiet")
        assert float(done.stdout) == pytest.approx(expected, abs=1e-3)


def test_a_batch_larger_than_the_data_is_named() -> None:
    exact = epsilon_of(*run(1, 1.5, 7), "--delta", "1e-5")
    assert exact.headline.epsilon == pytest.approx(8.572627, abs=1e-5)
    line = refused("epsilon", *run(40 / 32, 1.5, 7), "--delta", "1e-5")
    assert "sampling_prob must be from 0 to 1, got sampling_prob=1.25" in line
    assert "no larger than the data" in line


@pytest.mark.parametrize(("delta", "low", "high"), [("1e-5", 0.078, 0.89), ("1e-6", 0.0945, 1.12)])
def test_very_rare_sampling_over_very_many_steps(delta: str, low: float, high: float) -> None:
    result = epsilon_of(*run(1e-5, 0.7, 10**6), "--delta", delta)
    assert low <= result.headline.epsilon <= high
    assert low <= by_accountant(result)["rdp"].epsilon <= high  # type: ignore[union-attr]


def test_asking_changes_nothing_and_the_relation_is_named() -> None:
    arguments = ("budget", "epsilon", *run(0.1, 2, 50), "--delta", "1e-6")
    assert insular(*arguments) == insular(*arguments)
    both = {
        relation: insular(*arguments, "--relation", relation).stdout
        for relation in ("add_or_remove_one", "replace_one")
    }
    for relation, words in both.items():
        assert f"({relation})" in words
    assert "with another in its place" in " ".join(both["replace_one"].split())
    assert "no rule" in both["replace_one"]
    first, second = (float(re.findall(r"epsilon ([\d.]+)", words)[0]) for words in both.values())
    assert first < second


def test_the_noise_is_on_the_safe_side_as_printed() -> None:
    arguments = ["budget", "calibrate", "--sampling-prob", "0.02", "--steps", "1000",
                 "--epsilon", "2", "--delta", "1e-5"]  # fmt: skip
    done = insular(*arguments, "--json", "-")
    result = decode(CalibrationResult, done.stdout)
    for row, star in zip(result.rows, (1.48361, 1.58173), strict=True):
        assert star - 1e-3 <= row.noise_multiplier <= star + 0.02  # type: ignore[union-attr]
    for row in result.rows:
        for cost in row.costs:  # type: ignore[union-attr]
            if row.accountant in (cost.accountant, "rdp"):
                assert cost.epsilon <= 2
    words = " ".join(insular(*arguments).stdout.split())
    printed = re.findall(r"noise multiplier ([\d.]+) keeps", words)[0]
    assert epsilon_of(*run(0.02, printed, 1000), "--delta", "1e-5").headline.epsilon <= 2
    assert float(printed) == pytest.approx(result.found.noise_multiplier, abs=1e-5)


@pytest.mark.parametrize(
    ("promise", "value"),
    [(["--advantage", "0.1"], 0.1), (["--tpr", "0.05", "--fpr", "0.01"], 0.05)],
)
def test_promises_about_an_attacker(promise: list[str], value: float) -> None:
    done = insular("budget", "calibrate", "--sampling-prob", "0.02", "--steps", "100", *promise,
                   "--json", "-")  # fmt: skip
    result = decode(CalibrationResult, done.stdout)
    assert 0.98 * value < result.found.achieved <= value
    again = epsilon_of(*run(0.02, result.found.noise_multiplier, 100), "--delta", "1e-5").attacker
    rates = (again.advantage, again.true_positive_rate)  # type: ignore[union-attr]
    assert min(abs(value - rate) for rate in rates) < 0.02 * value


def test_a_promise_out_of_reach_says_what_is_in_reach() -> None:
    fixed = ("calibrate", "--sampling-prob", "1", "--steps", "10", "--delta", "1e-5")
    line = refused(*fixed, "--epsilon", "1e9")
    assert "epsilon must be reachable" in line and "smallest noise multiplier" in line
    assert "it is below" in refused(*fixed, "--advantage", "1e-12")
    assert "choose one of --epsilon, --advantage and --tpr" in refused(*fixed)
    assert "got 2" in refused(*fixed, "--epsilon", "1", "--advantage", "0.1")
    assert "given together" in refused(*fixed, "--tpr", "0.1")
    assert "--delta must be given" in refused(*fixed[:5], "--epsilon", "1")


def test_the_curve_and_its_figure(tmp_path: Path) -> None:
    figure = tmp_path / "curve.svg"
    arguments = ["budget", "curve", *run(1, 2, 4), "--fpr", "0.01", "--fpr", "0.1"]
    done = insular(*arguments, "--json", str(tmp_path / "c.json"), "--figure", str(figure))
    assert done.code == 0, done.stderr
    result = decode(CurveResult, (tmp_path / "c.json").read_text())
    assert result.curve.exact and result.curve.advantage == pytest.approx(0.382925, abs=1e-5)  # type: ignore[union-attr]
    epsilons = [cost.epsilon for cost in result.costs]  # type: ignore[union-attr]
    assert epsilons == sorted(epsilons) and epsilons[2] == pytest.approx(4.37718, abs=1e-4)
    assert "All closed forms." in done.stdout and f"Figure: {figure}" in done.stdout
    svg = figure.read_text()
    assert svg.startswith("<svg") and "prefers-color-scheme:dark" in svg
    assert "at 0.01: true positive rate 0.0924" in svg
    line = refused("curve", *run(1, 2, 4), "--figure", str(tmp_path / "none" / "x.svg"))
    assert "x.svg" in line


def test_a_measured_distance_against_the_claim() -> None:
    done = insular("budget", "pair", "--distance", "1.065257905")
    assert done.code == 1
    assert "BOUND EXCEEDED" in done.stdout
    assert "costs epsilon 4.7104" in " ".join(done.stdout.replace("│", " ").split())
    done = insular("budget", "pair", "--distance", "14.998", "--json", "-", "--sampling-prob",
                   "0.01", "--steps", "600")  # fmt: skip
    result = decode(PairResult, done.stdout)
    claimed, measured = result.rows
    assert done.code == result.exit_code == 1
    assert claimed.step_epsilon == pytest.approx(4.3772, abs=1e-4)
    assert measured.step_epsilon == pytest.approx(175.56, abs=0.01)
    assert claimed.run_epsilon < 2 < measured.run_epsilon  # type: ignore[operator]
    for kept in (["1"], ["1.00009"], ["0"], ["1.9", "--relation", "replace_one"],
                 ["1.01", "--repeat-distance", "0.01"]):  # fmt: skip
        done = insular("budget", "pair", "--distance", *kept)
        assert done.code == 0 and "BOUND KEPT" in done.stdout
        assert "not refuted, and not shown" in " ".join(done.stdout.replace("│", " ").split())
    assert "given together" in refused("pair", "--distance", "1", "--steps", "5")


def test_an_owner_of_several_records() -> None:
    done = insular("budget", "group", "--epsilon", "1", "--delta", "1e-6",
                   "--records-per-owner", "3", "--json", "-")  # fmt: skip
    owner = decode(GroupResult, done.stdout).owner
    assert owner.epsilon == 3
    assert owner.delta == pytest.approx(1e-6 * (1 + math.e + math.e**2))
    result = epsilon_of(*run(0.01, 1, 600), "--delta", "1e-5", "--records-per-owner", "3")
    assert result.owner is not None and result.owner.same_delta_epsilon is not None
    assert result.owner.epsilon == 3 * result.headline.epsilon < result.owner.same_delta_epsilon
    line = refused("epsilon", *run(0.01, 1, 6), "--delta", "1e-5", "--unit", "owner",
                   "--records-per-owner", "3")  # fmt: skip
    assert "records_per_owner must be 1 where the unit is owner" in line
    many = insular("budget", "group", "--epsilon", "5", "--delta", "1e-5",
                   "--records-per-owner", "40")  # fmt: skip
    assert "nothing is promised" in many.stdout


GOOD = {
    "epsilon": {"--noise-multiplier": "1", "--sampling-prob": "0.5", "--steps": "3",
                "--delta": "1e-5"},
    "curve": {"--noise-multiplier": "1", "--sampling-prob": "0.5", "--steps": "3"},
    "calibrate": {"--epsilon": "1", "--sampling-prob": "0.5", "--steps": "3", "--delta": "1e-5"},
    "pair": {"--distance": "1", "--noise-multiplier": "1", "--delta": "1e-5"},
    "group": {"--epsilon": "1", "--delta": "1e-5", "--records-per-owner": "2"},
}  # fmt: skip
NUMBERS = {"nan", "inf", "-inf", "-1"}


@pytest.mark.parametrize("command", GOOD)
def test_every_bad_number_is_one_clear_line(command: str) -> None:
    for option in GOOD[command]:
        integer = option in ("--steps", "--records-per-owner")
        values = {"-1", "1.5", "x", "9" * 301} if integer else {*NUMBERS, "x"}
        if option in ("--delta", "--sampling-prob", "--fpr"):
            values |= {"1e300", "1.0000001"}
        for value in values:
            changed = GOOD[command] | {option: value}
            line = refused(command, *(word for pair in changed.items() for word in pair))
            assert option.strip("-").replace("-", "_") in line.replace("-", "_"), line
            assert "must be" in line or "should be a valid" in line or "not a valid" in line, line
            assert len(line) < 700


def test_other_bad_input_is_one_clear_line(tmp_path: Path) -> None:
    good = [word for pair in GOOD["epsilon"].items() for word in pair]
    assert "relation must be one of" in refused("epsilon", *good, "--relation", "swap")
    assert "unit must be one of" in refused("epsilon", *good, "--unit", "user")
    assert "Missing option '--noise-multiplier'" in refused("epsilon")
    assert "see insular budget epsilon --help" in refused("epsilon", "--sigma", "1")
    assert "nope" in refused("nope")
    assert "none" in refused("epsilon", *good, "--json", str(tmp_path / "none" / "x.json"))
    many = [word for _ in range(21) for word in ("--delta", "1e-5")]
    assert "1 to 20 times" in refused("curve", *run(1, 1, 1), *many)


def test_results_fit_a_terminal_and_json_stands_alone() -> None:
    for command, options in GOOD.items():
        arguments = [word for pair in options.items() for word in pair]
        done = insular("budget", command, *arguments)
        assert done.code == 0 and done.stderr == ""
        assert all(len(line) <= 80 for line in done.stdout.splitlines())
        assert json.loads(insular("budget", command, *arguments, "--json", "-").stdout)


def test_the_number_alone_is_what_the_accountant_says() -> None:
    event = epsilon_of(*run(0.1, 2, 5), "--delta", "1e-5").run.event()
    done = insular("budget", "epsilon", *run(0.1, 2, 5), "--delta", "1e-5", "--quiet")
    assert float(done.stdout) == spend(event, delta=1e-5).epsilon


@pytest.mark.parametrize(
    "arguments", [["--help"], ["budget", "--help"], ["budget", "pair", "--help"]]
)
def test_help_needs_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom insular.cli.app import app\n"
        f"try:\n    app({arguments!r})\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'matplotlib', 'numpy', 'scipy', 'dp_accounting',\n"
        "         'insular.accounting', 'insular.recipes.budget.questions'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_the_budget_needs_no_torch() -> None:
    code = (
        "import sys\nfrom insular.cli.app import app\n"
        "try:\n    app(['budget', 'curve', '--noise-multiplier', '1', '--sampling-prob', '0.5',\n"
        "         '--steps', '3'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'transformers', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

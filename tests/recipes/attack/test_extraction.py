"""Planted secrets end to end: a model that keeps them, one that is private, and what is refused."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from insular.audit.secrets.planted import parse_template
from insular.audit.secrets.results import ExtractionResult
from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import RunStore
from insular.models.loading import load_decoder
from insular.recipes.attack.extraction import rank as attack_extraction_rank
from insular.recipes.attack.extraction._words import answer_sentences
from insular.recipes.attack.extraction.canaries import plant_canaries, read_plan
from insular.recipes.attack.extraction.canaries_spec import CanarySpec
from insular.recipes.attack.extraction.rank import rank_secret
from insular.recipes.attack.extraction.run import attack_extraction, write_page
from insular.recipes.attack.extraction.spec import ExtractionSpec
from insular.recipes.attack.extraction.summary import extraction_blocks
from insular.recipes.run_folder import read_settings
from insular.recipes.train.run import train_privately
from insular.recipes.train.spec import TrainSpec
from insular.reports.terminal import results_console
from recipes.secret_models import TEMPLATE, fitted, notes, spelling_folder, text_of


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secrets")
    spelling_folder(folder / "base")
    plant(folder, folder / "canaries")
    return folder


def plant(folder: Path, out: Path, **changes: object) -> list[str]:
    """Plant 24 secrets, 12 of them 1, 4, 16 or 64 times; the texts of the file."""
    spec = CanarySpec(
        text=str(notes(folder / "notes.jsonl")),
        secrets=24,
        template=TEMPLATE,
        id_field="id",
        owner_field="user",
    )
    plant_canaries(replace(spec, **changes), out, command=())
    return texts_of(out)


def texts_of(folder: Path) -> list[str]:
    return [json.loads(line)["text"] for line in (folder / "train.jsonl").read_text().splitlines()]


def spec_of(home: Path, run: Path, **changes: object) -> ExtractionSpec:
    return ExtractionSpec(run=str(run), canaries=str(home / "canaries"), **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def open_run(home: Path) -> tuple[Path, ExtractionResult]:
    """A model trained without protection, said to keep epsilon 1: a planted lie."""
    fitted(home / "base", home / "open", texts_of(home / "canaries"), steps=70)
    spec = spec_of(home, home / "open", epsilon=1.0, delta=1e-5)
    out = home / "attack-open"
    return out, attack_extraction(spec, out, command=("insular", "attack", "extraction"))


def private_spec(home: Path, **changes: object) -> TrainSpec:
    """Settings of ``insular train`` under which the 64-fold secrets are learnt without noise."""
    spec = TrainSpec(
        model=str(home / "public"),
        text=str(home / "canaries" / "train.jsonl"),
        id_field="id",
        backbone="float32",
        epsilon=1.0,
        delta=1e-5,
        steps=40,
        batch=60,
        tokens=32,
        clip_norm=0.3,
        learning_rate=1e-2,
        lora_rank=16,
        lora_targets=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        validation="none",
        threads=1,
        noise_seed=3,
    )
    return replace(spec, **changes)


@pytest.fixture(scope="module")
def public(home: Path) -> Path:
    """A base that knows the form of the sentences, from other names and digits."""
    rng = random.Random(5)
    syllables = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]

    def word() -> str:
        return "".join(rng.choices(syllables, k=2)).capitalize()

    texts = [f"pin {word()} {word()} {rng.randrange(10**4):04d}" for _ in range(600)]
    own = [json.loads(line)["text"] for line in (home / "notes.jsonl").read_text().splitlines()]
    return fitted(home / "base", home / "public", own + texts, steps=60)


@pytest.fixture(scope="module")
def noiseless_run(home: Path, public: Path) -> ExtractionResult:
    """The control of the private run: the same settings, next to no noise."""
    train_privately(
        private_spec(home, epsilon=0.0, noise_multiplier=1e-3), home / "noiseless", command=()
    )
    return attack_extraction(
        spec_of(home, home / "noiseless"), home / "attack-noiseless", command=()
    )


@pytest.fixture(scope="module")
def private_run(home: Path, public: Path) -> tuple[Path, ExtractionResult]:
    """The same file and settings at epsilon 1 for each record."""
    train_privately(private_spec(home), home / "private", command=())
    out = home / "attack-private"
    return out, attack_extraction(spec_of(home, home / "private"), out, command=())


def test_exposure_rises_with_repetitions_without_privacy(open_run: tuple[Path, ExtractionResult]):
    _, result = open_run
    assert [group.repeats for group in result.planted] == [1, 4, 16, 64]
    means = [group.mean_bits for group in result.planted]
    assert means[0] > result.controls.mean_bits + 1
    assert all(a <= b for a, b in zip(means, means[1:], strict=False)) and means[0] < means[-1]
    most = result.planted[-1]
    assert most.greedy.count == most.n and most.mean_bits == pytest.approx(math.log2(10**4))
    assert all(rank.method == "exact" for rank in result.secrets)
    known = [rank for rank in result.secrets if rank.repeats == 64]
    assert all(rank.samples_needed < 10 for rank in known)
    assert max(rank.drift_nats or 0.0 for rank in result.secrets) < 1e-4 / 2


def test_a_false_promise_is_refuted(open_run: tuple[Path, ExtractionResult]):
    out, result = open_run
    assert result.verdict == "refuted" and result.exit_code == 1
    assert {test.repeats for test in result.refuting} >= {16, 64}
    assert result.planted[-1].allowed is not None
    assert result.planted[-1].allowed.mean_bits == pytest.approx(2.64, abs=0.01)
    page = text_of((out / "report.html").read_text())
    assert "is REFUTED" in page and "It does not show" in page and "It shows" in page


def test_controls_are_at_chance(
    open_run: tuple[Path, ExtractionResult], private_run: tuple[Path, ExtractionResult]
):
    for _, result in (open_run, private_run):
        assert result.controls.n == 12 and result.controls_random
        assert result.controls.greedy.count == 0
        # mean of 12 unit exponentials over ln 2: outside of these with probability 1e-4
        assert 0.4 < result.controls.mean_bits < 3.4


def test_without_noise_the_same_run_learns_what_is_repeated(noiseless_run: ExtractionResult):
    means = [group.mean_bits for group in noiseless_run.planted]
    # one and four rows of 345 are at chance after so few steps; only repetition is learnt
    assert means[-1] > 12 and means[-1] > means[-2] + 2
    assert noiseless_run.planted[-1].chance_p < 1e-6
    assert noiseless_run.planted[-1].greedy.count >= 1
    # so large an epsilon can be refuted by nothing
    assert noiseless_run.verdict == "undecided" and noiseless_run.exit_code == 2
    assert any("so large an epsilon allows" in line for line in answer_sentences(noiseless_run))


def test_a_private_run_stays_within_its_promise(
    private_run: tuple[Path, ExtractionResult], noiseless_run: ExtractionResult
):
    _, result = private_run
    assert result.epsilon == pytest.approx(1.0, rel=0.01) and result.unit == "record"
    assert result.verdict == "not refuted" and result.exit_code == 0
    assert result.caveat and result.notes == ()  # its noise has a seed
    assert result.planted[-1].mean_bits < noiseless_run.planted[-1].mean_bits - 5
    assert sum(group.greedy.count for group in result.planted) == 0
    once = result.planted[0]
    assert once.allowed is not None and once.allowed.mean_bits == pytest.approx(2.64, abs=0.01)
    # three secrets whose mean may be 2.64 bits: above 8 with probability below 1e-3
    assert once.mean_bits < 8


def test_rows_of_a_record_promise_are_accounted_together(
    private_run: tuple[Path, ExtractionResult],
):
    allowed = [group.allowed for group in private_run[1].planted if group.allowed is not None]
    assert [one.how for one in allowed] == [
        "as promised",
        *(f"accounted for {count} records together" for count in (4, 16, 64)),
    ]
    epsilons = [one.epsilon for one in allowed]
    assert epsilons[0] == private_run[1].epsilon and epsilons == sorted(epsilons)
    assert allowed[0].mean_bits < allowed[1].mean_bits < math.log2(10**4)
    assert allowed[3].mean_bits == math.log2(10**4)  # 64 rows: nothing is left of the promise


def test_an_owner_who_holds_all_rows_is_covered_as_promised(home: Path, public: Path):
    spec = private_spec(home, unit="user", batch=10, steps=3, lora_targets=())
    train_privately(spec, home / "by-owner", command=())
    attack = spec_of(home, home / "by-owner", rank="sampled", candidates=200)
    result = attack_extraction(attack, home / "attack-owner", command=())
    allowed = [group.allowed for group in result.planted if group.allowed is not None]
    assert {one.how for one in allowed} == {"as promised"} and len(allowed) == 4
    assert {round(one.mean_bits, 1) for one in allowed} == {2.6} and result.unit == "owner"
    assert {rank.method for rank in result.secrets} == {"sampled"}
    assert {test.share for test in result.tests} == {1e-2, 1e-1}  # what 200 candidates resolve
    assert result.verdict == "not refuted"


def test_deduplicated_training_keeps_less(home: Path, open_run: tuple[Path, ExtractionResult]):
    """As many passes over each text once: repeats no longer help."""
    once = list(dict.fromkeys(texts_of(home / "canaries")))
    steps = 70 * len(once) // len(texts_of(home / "canaries"))
    fitted(home / "base", home / "once", once, steps=steps)
    result = attack_extraction(spec_of(home, home / "once"), home / "attack-once", command=())
    assert result.verdict == "nothing promised" and result.exit_code == 0
    for before, after in zip(open_run[1].planted[1:], result.planted[1:], strict=True):
        assert after.mean_bits < before.mean_bits - 3
        assert after.greedy.count < before.greedy.count


@pytest.mark.parametrize("repeat", [(1, 4, 16, 64)])
def test_an_exact_rank_among_a_million(home: Path, tmp_path: Path, repeat: tuple[int, ...]):
    template = "pin {name} {6 digits}"
    texts = plant(tmp_path, tmp_path / "six", template=template, secrets=16, repeat=repeat)
    fitted(home / "base", tmp_path / "model", texts, steps=60)
    decoder = load_decoder(str(tmp_path / "model"))
    spec = ExtractionSpec(run="", canaries="", candidates=300, prefixes=2000)
    plan = read_plan(tmp_path / "six")[1]
    ranks = [
        rank_secret(decoder, parse_template(template), secret, spec)
        for secret in plan.secrets
        if secret.repeats
    ]
    means = [
        sum(rank.exposure_bits for rank in ranks if rank.repeats == count) / 2 for count in repeat
    ]
    assert all(a <= b for a, b in zip(means, means[1:], strict=False))
    best = [rank for rank in ranks if rank.repeats == 64]
    for rank in best:
        assert (rank.method, rank.n_candidates) == ("exact", 10**6)
        assert rank.exposure_bits == pytest.approx(math.log2(10**6))
        assert rank.n_prefixes < 111_111 // 50  # cut where a beginning is already less likely
    assert all(rank.n_candidates in (301, 10**6) for rank in ranks)


def test_no_file_but_the_plan_holds_a_secret(home: Path, open_run: tuple[Path, ExtractionResult]):
    out, result = open_run
    plan = read_plan(home / "canaries")[1]
    texts = [parse_template(TEMPLATE).fill(s.name, s.secret) for s in plan.secrets]
    console_text = _terminal(result)
    for content in (*(file.read_text() for file in out.glob("*.*")), console_text):
        assert not any(secret.name in content for secret in plan.secrets)
        assert not any(text in content for text in texts)
    values = {secret.secret for secret in plan.secrets}
    assert not values & set(text_of((out / "report.html").read_text()).split())


def _terminal(result: ExtractionResult) -> str:
    from io import StringIO

    stream = StringIO()
    console = results_console(stream)
    for block in extraction_blocks(result):
        console.print(block)
    return stream.getvalue()


def test_the_terminal_says_what_it_shows_and_what_not(
    open_run: tuple[Path, ExtractionResult], private_run: tuple[Path, ExtractionResult]
):
    shown = " ".join(_terminal(open_run[1]).split())
    assert "REFUTED" in shown and "It shows that of 12 planted" in shown
    quiet = " ".join(_terminal(private_run[1]).split())
    assert "is not refuted by these ranks" in quiet and "It does not show" in quiet


def test_evidence_is_whole_and_joined_by_id(home: Path, open_run: tuple[Path, ExtractionResult]):
    out, result = open_run
    store = RunStore.open(out)
    store.verify()
    assert store.read_result("results", ExtractionResult) == result
    assert store.manifest.kind == "attack.extraction"
    assert read_settings(store, ExtractionSpec).canaries == str(home / "canaries")
    assert {fact.name for fact in store.manifest.inputs} == {"model", "canaries"}
    plan = read_plan(home / "canaries")[1]
    assert [(r.id, r.repeats) for r in result.secrets] == [(s.id, s.repeats) for s in plan.secrets]
    before = (out / "report.html").read_bytes()
    assert write_page(store).read_bytes() == before


def test_a_stopped_run_goes_on_without_ranking_again(
    home: Path, open_run: tuple[Path, ExtractionResult], monkeypatch: pytest.MonkeyPatch
):
    done: list[str] = []
    real = attack_extraction_rank.rank_secret

    def stopping(decoder: object, template: object, secret: object, spec: object) -> object:
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(secret.id)  # type: ignore[attr-defined]
        return real(decoder, template, secret, spec)  # type: ignore[arg-type]

    spec = spec_of(home, home / "open", epsilon=1.0, delta=1e-5)
    monkeypatch.setattr(attack_extraction_rank, "rank_secret", stopping)
    with pytest.raises(KeyboardInterrupt):
        attack_extraction(spec, home / "stopped", command=())
    assert RunStore.open(home / "stopped").manifest.status == "interrupted"
    done.clear()
    monkeypatch.setattr(
        attack_extraction_rank, "rank_secret", lambda *a: done.append(a[2].id) or real(*a)
    )
    result = attack_extraction(spec, home / "stopped", command=())
    assert len(done) == len(result.secrets) - 3
    assert result == open_run[1]


def test_a_run_on_another_text_is_refused(
    home: Path, private_run: tuple[Path, ExtractionResult], tmp_path: Path
):
    plant(tmp_path, tmp_path / "canaries", seed=9)
    spec = replace(spec_of(home, home / "private"), canaries=str(tmp_path / "canaries"))
    with pytest.raises(EvidenceError, match="must have learnt from .*train.jsonl"):
        attack_extraction(spec, tmp_path / "out", command=())
    assert not (tmp_path / "out").exists()


def test_a_secret_outside_the_training_window_is_refused_by_id(home: Path, tmp_path: Path):
    """Case text-05: truncation must not be read as no memorisation."""
    long = "pin {name} " + "x" * 20 + " {4 digits}"
    plant(tmp_path, tmp_path / "canaries", template=long)
    spec = private_spec(
        home,
        model=str(home / "base"),
        text=str(tmp_path / "canaries" / "train.jsonl"),
        tokens=24,
        steps=3,
        lora_targets=(),
    )
    train_privately(spec, tmp_path / "run", command=())
    attack = ExtractionSpec(run=str(tmp_path / "run"), canaries=str(tmp_path / "canaries"))
    with pytest.raises(RecordError, match=r"within the 24 tokens .* got canary-\d+ cut off, 12"):
        attack_extraction(attack, tmp_path / "out", command=())


def test_two_promises_and_used_folders_are_refused(
    home: Path, private_run: tuple[Path, ExtractionResult]
):
    with pytest.raises(InvalidArgumentError, match="epsilon must be 0 for a run that states"):
        attack_extraction(spec_of(home, home / "private", epsilon=2.0), home / "no", command=())
    with pytest.raises(InvalidArgumentError, match="another folder"):
        attack_extraction(spec_of(home, home / "open"), home / "canaries", command=())
    with pytest.raises(EvidenceError, match="already holds a complete run"):
        attack_extraction(spec_of(home, home / "open"), private_run[0], command=())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rank": "half"}, "rank must be one of auto, exact, sampled"),
        ({"candidates": 3}, "candidates must be an integer >= 20"),
        ({"delta": 0.1}, "epsilon must be > 0 with delta"),
        ({"significance": 0.0}, "significance must be above 0"),
        ({"epsilon": -1.0}, "epsilon must be finite and >= 0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], message: str):
    with pytest.raises(InvalidArgumentError, match=message):
        ExtractionSpec(run="x", canaries="y", **change)  # type: ignore[arg-type]

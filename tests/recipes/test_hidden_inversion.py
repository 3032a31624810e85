"""``insular hidden invert`` end to end on a tiny decoder, and its words and page."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from insular.errors import EvidenceError, InvalidArgumentError, RecordError
from insular.evidence import RunStore, collect_manifest, decode, encode
from insular.hidden.forward import SplitDecoder
from insular.hidden.inversion_results import InversionResult
from insular.models.loading import load_decoder
from insular.recipes import hidden_inversion
from insular.recipes._inversion_words import answer_sentences, verdict_words
from insular.recipes.hidden_inversion import invert_hidden, write_page
from insular.recipes.hidden_inversion_page import inversion_page
from insular.recipes.hidden_inversion_prompts import read_matrix
from insular.recipes.hidden_inversion_spec import HiddenInversionSpec
from insular.recipes.run_folder import PAGE, RESULT
from insular.records.batches import collate
from insular.records.tokens import TokenisedRecord
from insular.reports import render

from .hidden_samples import SECRET
from .inversion_samples import result_by_hand, tiny_calibration, tiny_inversion


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("inversion")


@pytest.fixture(autouse=True)
def own_cache(folder: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSULAR_CACHE", str(folder / "cache"))
        patch.setattr(hidden_inversion, "calibration_records", tiny_calibration)
        yield


def run(folder: Path, out: Path, **changes: object) -> InversionResult:
    return invert_hidden(tiny_inversion(folder, **changes), out, command=("insular",))


def test_clean_states_of_prompts_are_read_and_no_file_holds_their_text(
    folder: Path, tmp_path: Path
) -> None:
    found = run(folder, tmp_path / "run")
    assert (found.n_exact, found.silent_errors, found.exit_code) == (4, 0, 1)
    assert found.exact_match is not None and found.exact_match.method == "binomial"
    assert decode(InversionResult, encode(found), source="text") == found
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    store = RunStore.open(tmp_path / "run")
    store.verify()
    page = (tmp_path / "run" / PAGE).read_bytes()
    write_page(store)
    assert (tmp_path / "run" / PAGE).read_bytes() == page
    assert store.read_result(RESULT, InversionResult) == found


def test_text_is_shown_only_when_asked_for(folder: Path, tmp_path: Path) -> None:
    shown = run(folder, tmp_path / "run", show_text=True)
    assert all(one.recovered_text and one.recovered_text == one.true_text for one in shown.prompts)
    assert "Recovered text" in (tmp_path / "run" / PAGE).read_text()


@pytest.mark.parametrize("storage", ["bf16", "int8"])
def test_storage_is_applied(folder: Path, tmp_path: Path, storage: str) -> None:
    found = run(folder, tmp_path / "run", storage=storage, every=2)
    assert found.storage == storage
    assert all("unobserved" in one.statuses for one in found.prompts if one.n_tokens % 2 == 0)


def test_a_mechanism_is_scaled_on_other_prompts_and_applied(folder: Path, tmp_path: Path) -> None:
    found = run(folder, tmp_path / "run", mechanism="isotropic", kl_nats=0.05)
    assert found.mechanism == "isotropic" and found.budget_nats is not None
    assert found.silent_errors is not None
    assert found.notes


def test_states_of_a_file_are_read_with_and_without_truth(folder: Path, tmp_path: Path) -> None:
    spec = tiny_inversion(folder)
    split = SplitDecoder(load_decoder(spec.model).model)
    tokens = (5, 9, 30, 12, 8)
    batch = collate([TokenisedRecord(id="a", owner="a", tokens=tokens)], pad_token_id=0)
    states = split.states(batch, layers=[1])[1][0].contiguous()
    file = str(tmp_path / "states.safetensors")
    save_file({"a": states, "tokens:a": torch.tensor(tokens), "b": states.clone()}, file)
    found = run(folder, tmp_path / "run", states=file)
    assert [one.exact for one in found.prompts] == [True, None]
    assert found.n_certain == 2
    save_file({"b": states.clone()}, file)
    assert run(folder, tmp_path / "blind", states=file).exit_code == 1
    assert torch.equal(read_matrix(Path(file)), states)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"a": torch.ones(3, 7)}, r"64 columns.*\(3, 7\)"),
        ({"a": torch.ones(64)}, r"64 columns.*\(64,\)"),
        ({"a": torch.ones((3, 64), dtype=torch.int64)}, "int64"),
        ({"a": torch.ones(3, 64), "tokens:a": torch.tensor([1])}, "one token id a row"),
        ({"tokens:a": torch.tensor([1])}, "got none"),
    ],
)
def test_wrong_states_are_named(
    folder: Path, tmp_path: Path, tensors: dict[str, torch.Tensor], words: str
) -> None:
    # case hid-05
    save_file(tensors, str(tmp_path / "states.safetensors"))
    with pytest.raises(InvalidArgumentError, match=words):
        run(folder, tmp_path / "run", states=str(tmp_path / "states.safetensors"))


def test_a_file_that_is_none_and_a_run_that_is_there_are_refused(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "states.safetensors").write_bytes(b"no")
    with pytest.raises(RecordError, match="safetensors"):
        run(folder, tmp_path / "run", states=str(tmp_path / "states.safetensors"))
    with pytest.raises(InvalidArgumentError, match="layers"):
        run(folder, tmp_path / "run", layer=2)
    run(folder, tmp_path / "run", prompts=1)
    with pytest.raises(EvidenceError):
        run(folder, tmp_path / "run", prompts=1)


def test_every_broken_rule_is_reported_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match=r"layer.*kl_nats.*one"):
        HiddenInversionSpec(layer=-1, kl_nats=0.0, release="a", mechanism="isotropic")


def test_the_answer_says_what_was_read_and_under_which_release() -> None:
    text = " ".join(answer_sentences(result_by_hand()))
    assert "layer 1 of tiny" in text and "int8, positions 0, 2, 4, ..." in text
    assert "isotropic at 0.3 nats" in text
    assert "1 of 2 prompts read exactly" in text
    assert "No wrong token was accepted." in text
    wrong = result_by_hand(right=False)
    assert verdict_words(wrong) == "No prompt was read exactly"
    assert wrong.exit_code == 0
    assert "1 wrong token looked right" in " ".join(answer_sentences(wrong))


def test_without_truth_only_certainty_is_claimed() -> None:
    whole = result_by_hand()
    blind = replace(
        whole,
        prompts=tuple(replace(one, correct=None) for one in whole.prompts),
        exact_match=None,
        token_accuracy=None,
        ranked_first=None,
    )
    assert (blind.n_exact, blind.silent_errors, blind.exit_code) == (None, None, 1)
    assert verdict_words(blind) == "1 of 2 prompts read, none in doubt"
    doubted = replace(blind, prompts=blind.prompts[1:])
    assert doubted.exit_code == 2


def test_the_page_escapes_text_and_holds_it_only_if_shown() -> None:
    manifest = collect_manifest("hidden.invert", "x", command=("insular",), inputs=(), seed=0)
    shown = render(inversion_page(result_by_hand(shown=True), manifest))
    assert "&lt;script&gt;seen" in shown and "<script>seen" not in shown
    assert "It holds text" in shown
    hidden = render(inversion_page(result_by_hand(), manifest))
    assert "Recovered text" not in hidden
    assert "No record text is on this page." in hidden

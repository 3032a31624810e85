"""The prompts of an inversion: their lengths, roles, and start and end tokens."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from insular.errors import InvalidArgumentError, RecordError
from insular.models.loading import Decoder, load_decoder
from insular.recipes.hidden.inversion.prompts import InversionInputs, read_inputs
from recipes.inversion_samples import tiny_inversion


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prompts")


@pytest.fixture(scope="module")
def plain(folder: Path) -> Decoder:
    return load_decoder(tiny_inversion(folder).model)


@pytest.fixture(scope="module")
def marked(plain: Decoder) -> Decoder:
    """The same model with a tokenizer that has start and end tokens, and adds none."""
    tokenizer = AutoTokenizer.from_pretrained(plain.source)
    tokenizer.bos_token, tokenizer.eos_token = "w60", "w61"
    return replace(plain, tokenizer=tokenizer)


def read(folder: Path, decoder: Decoder, **changes: object) -> InversionInputs:
    reserved = changes.pop("reserved", ())
    return read_inputs(tiny_inversion(folder, **changes), decoder, reserved=reserved)  # pyright: ignore[reportArgumentType]


def test_equal_settings_and_text_give_equal_prompts(folder: Path, plain: Decoder) -> None:
    one, two = (read(folder, plain, mechanisms=("isotropic",)) for _ in range(2))
    assert [(a.id, a.truth) for a in one.trajectories] == [
        (a.id, a.truth) for a in two.trajectories
    ]
    assert one.others == two.others and len(one.others) == 60


def test_shorter_texts_are_shorter_prompts(folder: Path, plain: Decoder) -> None:
    lengths = {one.n_tokens for one in read(folder, plain, tokens=60, prompts=99).trajectories}
    assert lengths == {10, 11, 12, 13, 14}


def test_no_reserved_or_repeated_prompt_is_inverted(folder: Path, plain: Decoder) -> None:
    all_ids = [one.id for one in read(folder, plain, prompts=160).trajectories]
    found = read(folder, plain, prompts=160, reserved=all_ids[:50])
    assert {one.id for one in found.trajectories} == set(all_ids[50:])
    # one token long, hardly any two differ
    short = read(folder, plain, prompts=160, tokens=1).trajectories
    assert len({one.truth for one in short}) == len(short) < 10


def test_no_document_that_a_mechanism_is_fitted_or_scaled_on_has_a_prompt_that_is_inverted(
    folder: Path, plain: Decoder
) -> None:
    found = read(folder, plain, mechanisms=("isotropic",), prompts=80)
    owners = {one.owner for one in found.others}
    assert len(found.trajectories) == 80
    assert not owners & {one.id for one in found.trajectories}
    with pytest.raises(RecordError, match="300 different prompts to fit .* 160 documents, got 80"):
        read(folder, plain, mechanisms=("isotropic",), fit=280)


def test_start_and_end_tokens_stand_around_each_prompt(folder: Path, marked: Decoder) -> None:
    start, end = marked.tokenizer.bos_token_id, marked.tokenizer.eos_token_id
    found = read(folder, marked, special=True, mechanisms=("isotropic",), tokens=8)
    without = {
        one.id: one.truth or () for one in read(folder, marked, tokens=8, prompts=160).trajectories
    }
    for one in found.trajectories:
        assert one.truth == (start, *without[one.id][:6], end)
    assert all(one.tokens[0] == start and one.tokens[-1] != end for one in found.others)


def test_tokens_that_the_tokenizer_adds_itself_come_once(folder: Path, marked: Decoder) -> None:
    class Adding:
        bos_token_id, eos_token_id = marked.tokenizer.bos_token_id, marked.tokenizer.eos_token_id

        def __call__(self, text: str, **_: object) -> dict[str, list[int]]:
            ids = marked.tokenizer(text)["input_ids"]
            return {"input_ids": [self.bos_token_id, *ids, self.eos_token_id]}

    twice = replace(marked, tokenizer=Adding())
    found = read(folder, twice, special=True, tokens=60).trajectories
    assert found == read(folder, marked, special=True, tokens=60).trajectories or [
        one.truth for one in found
    ] == [one.truth for one in read(folder, marked, special=True, tokens=60).trajectories]


def test_a_tokenizer_without_such_tokens_and_too_short_prompts_are_refused(
    folder: Path, plain: Decoder, marked: Decoder
) -> None:
    with pytest.raises(InvalidArgumentError, match="special must be off .* names no start and no"):
        read(folder, plain, special=True)
    with pytest.raises(InvalidArgumentError, match="above the 2 that --special adds, got tokens=2"):
        read(folder, marked, special=True, tokens=2)


def test_a_text_without_a_prompt_is_refused(folder: Path, plain: Decoder, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"id": "a", "text": "w1 w2"}) + "\n")
    with pytest.raises(RecordError, match="must hold a text that is not empty"):
        read(folder, plain, text=str(file), reserved=["a"])

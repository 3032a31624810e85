"""Loading folders: what comes out, and one clear line for everything that cannot come in."""

import json
import logging
import shutil
import subprocess
import sys
import warnings
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from insular.errors import InsularError, InvalidArgumentError, ModelError
from insular.models.digests import folder_digest
from insular.models.loading import load_decoder

from .families import CONTEXT, FAMILIES, VOCABULARY, tiny

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])


def add_tokenizer(folder: Path) -> None:
    words = ["<pad>", "<s>", "</s>", "<unk>", *(f"w{i}" for i in range(4, VOCABULARY))]
    tokenizer = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>", eos_token="</s>"
    ).save_pretrained(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny("llama").save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


def refused(name: object, **arguments: str) -> str:
    """The one line with which a load is refused."""
    with pytest.raises(InsularError) as caught:
        load_decoder(str(name), **arguments)
    assert isinstance(caught.value, ModelError | InvalidArgumentError)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    return str(caught.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_folder_of_each_family_loads_as_it_was_saved(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    model.save_pretrained(tmp_path)
    decoder = load_decoder(str(tmp_path), attention="sdpa")
    eager = load_decoder(str(tmp_path))
    with torch.no_grad():
        assert torch.equal(decoder.model(IDS).logits, model(IDS).logits)
        assert torch.allclose(eager.model(IDS).logits, model(IDS).logits, atol=1e-5)
    assert decoder.family == family
    assert decoder.context_tokens == CONTEXT
    assert decoder.source == tmp_path
    assert not decoder.model.training
    assert not any(parameter.requires_grad for parameter in decoder.model.parameters())
    with pytest.raises(FrozenInstanceError):
        decoder.name = "other"


def test_a_tokenizer_makes_the_round_trip(folder: Path) -> None:
    add_tokenizer(folder)
    decoder = load_decoder(str(folder))
    assert decoder.encode("w7 w9 never") == [7, 9, 3]
    assert decoder.encode("") == []
    assert decoder.encode("w5 " * 100) == [5] * 100
    assert decoder.pad_token_id == 0


def test_encode_without_a_tokenizer_is_an_error(folder: Path) -> None:
    decoder = load_decoder(str(folder))
    assert decoder.tokenizer is None
    with pytest.raises(ModelError, match=r"has no tokenizer .*tokenizer.json"):
        decoder.encode("some text")


def test_a_token_that_the_model_does_not_know_is_an_error(folder: Path) -> None:
    add_tokenizer(folder)
    decoder = load_decoder(str(folder))
    decoder.tokenizer.add_tokens(["private"])
    with pytest.raises(ModelError, match="has 64 token embeddings, .*id 64;") as caught:
        decoder.encode("w5 private")
    assert "private" not in str(caught.value)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_dtype_is_the_weights_dtype(folder: Path, dtype: str) -> None:
    model = load_decoder(str(folder), dtype=dtype).model
    assert {p.dtype for p in model.parameters()} == {getattr(torch, dtype)}


def test_tied_weights_stay_one_tensor(folder: Path) -> None:
    model = load_decoder(str(folder)).model
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_the_digest_names_configuration_and_weights_only(folder: Path, tmp_path: Path) -> None:
    before = load_decoder(str(folder)).digest
    (folder / "README.md").write_text("changed")
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert folder_digest(moved) == before
    weights = load_file(moved / "model.safetensors")
    weights["model.norm.weight"][0] += 1
    save_file(weights, moved / "model.safetensors", metadata={"format": "pt"})
    assert folder_digest(moved) != before


def test_the_load_is_silent_and_changes_no_global_state(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def state() -> tuple:
        bars = hf.utils.logging.is_progress_bar_enabled()
        return logging.root.manager.disable, list(warnings.filters), bars

    before, generator = state(), torch.random.get_rng_state()
    load_decoder(str(folder))
    refused(folder / "absent.gguf")
    assert state() == before
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert capfd.readouterr() == ("", "")


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    assert "nowhere' does not exist" in refused(tmp_path / "nowhere")
    assert "model 'nowhere.gguf' does not exist" in refused("nowhere.gguf")


def test_a_hub_name_without_a_hub_is_refused_with_the_remedies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unreachable(*_: object, timeout: float, **__: object) -> None:
        assert timeout <= 10
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", unreachable)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    text = refused("nobody/no-such-model")
    for part in ("'nobody/no-such-model'", "no model hub", "smollm2", "a folder", "GGUF"):
        assert part in text


def test_a_hub_name_is_downloaded_without_pickles(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    def download(name: str, *, allow_patterns: list[str]) -> str:
        assert name == "someone/tiny" and "*.safetensors" in allow_patterns
        assert not any(pattern.endswith((".bin", ".pt")) for pattern in allow_patterns)
        return str(folder)

    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert load_decoder("someone/tiny").source == folder


def test_a_name_that_no_hub_could_have_is_refused() -> None:
    assert "no hub name" in refused("not a name")


def test_a_folder_without_weights_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pickled weights are not read" in refused(folder)
    (folder / "pytorch_model.bin").unlink()
    assert f"'{folder}' has no weights" in refused(folder)
    (tmp_path / "empty").mkdir()
    assert "empty' has no weights to load" in refused(tmp_path / "empty")


@pytest.mark.parametrize("kept", [0.0, 0.01, 0.6])
def test_cut_safetensors_are_refused(folder: Path, kept: float) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * kept)])
    text = refused(folder)
    assert f"'{path}'" in text and "truncated or corrupt" in text


def test_a_missing_weight_is_refused_not_drawn_at_random(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.self_attn.q_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert "lacks 1 weights" in (text := refused(folder))
    assert "layers.1.self_attn.q_proj.weight" in text


def test_a_misshapen_weight_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"intermediate_size": 48}))
    assert str(folder) in refused(folder)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "needs readable JSON"),
        ('{"model_type": "newarch9"}', "newarch9"),
        ("{}", "describes no model"),
        ('{"model_type": "t5"}', "'t5'"),
    ],
)
def test_a_wrong_configuration_is_refused(folder: Path, text: str, part: str) -> None:
    (folder / "config.json").write_text(text)
    assert part in (line := refused(folder))
    assert str(folder) in line


@pytest.mark.parametrize("head", [hf.BertForMaskedLM, hf.BertModel])
def test_an_encoder_is_refused_because_it_looks_ahead(head: type, tmp_path: Path) -> None:
    config = hf.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=CONTEXT,
    )
    head(config).save_pretrained(tmp_path)
    text = refused(tmp_path)
    assert "'bert'" in text and "it is an encoder" in text


def test_a_damaged_tokenizer_is_refused(folder: Path) -> None:
    add_tokenizer(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": 7}')
    assert "the tokenizer of model" in refused(folder)


def test_arguments_that_break_their_rule_are_named(folder: Path) -> None:
    assert "dtype must be one of float32, bfloat16, float16" in refused(folder, dtype="int4")
    assert "device must be one that torch can use" in refused(folder, device="nowhere")
    assert "model must be an alias" in refused(" ")


def test_importing_the_package_imports_no_torch() -> None:
    code = (
        "import sys, insular.models, insular.models.spec;"
        "sys.exit(bool({'torch', 'transformers', 'peft'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

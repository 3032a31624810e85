"""GGUF files: equal to the model that was written, cached once, refused when they are not whole."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import gguf
import pytest
import torch

from insular.errors import ModelError
from insular.models import gguf_cache
from insular.models.gguf_header import read_gguf_header
from insular.models.loading import Decoder, load_decoder
from insular.models.structure import trainable

from .families import tiny
from .gguf_writer import write_gguf

IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [8, 9, 7, 9, 3, 2, 3, 8]])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield write_gguf(tiny("llama"), tmp_path / "tiny.gguf")


def refuse_to_build(path: Path) -> None:
    raise AssertionError(f"{path} was dequantised again")


def cached_weights(cache: Path) -> Path:
    return next(cache.rglob("model.safetensors"))


@pytest.mark.parametrize(
    ("dtype", "bound"), [("F32", 1e-6), ("F16", 1e-3), ("BF16", 1e-2), ("Q8_0", 2e-2)]
)
def test_logits_equal_those_of_the_model_that_was_written(
    dtype: str, bound: float, tmp_path: Path
) -> None:
    model = tiny("llama")
    decoder = load_decoder(str(write_gguf(model, tmp_path / "tiny.gguf", dtype=dtype)))
    with torch.no_grad():
        error = (decoder.model(IDS).logits - model(IDS).logits).abs().max().item()
    assert error < bound
    assert decoder.family == "llama" and decoder.context_tokens == 64


def test_a_tied_head_is_the_embedding_and_counts_once(file: Path) -> None:
    model = load_decoder(str(file)).model
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    model.requires_grad_(True)
    names = trainable(model)
    assert "model.embed_tokens.weight" in names and "lm_head.weight" not in names


def test_an_untied_head_stays_its_own(tmp_path: Path) -> None:
    model = tiny("llama")
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach() * 2)
    loaded = load_decoder(str(write_gguf(model, tmp_path / "untied.gguf"))).model
    with torch.no_grad():
        assert (loaded(IDS).logits - model(IDS).logits).abs().max() < 1e-6


def test_the_cached_copy_loads_bitwise_equal_to_the_dequantised_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(tiny("llama"), tmp_path / "tiny.gguf", dtype="Q8_0")
    direct, _ = gguf_cache._dequantise(path)
    first = load_decoder(str(path))
    monkeypatch.setattr(gguf_cache, "_dequantise", refuse_to_build)
    second = load_decoder(str(tmp_path))  # the folder with this one file
    for decoder in (first, second):
        state = decoder.model.state_dict()
        assert state.keys() == direct.state_dict().keys()
        assert all(torch.equal(state[key], value) for key, value in direct.state_dict().items())
    assert first.digest == second.digest
    assert second.source == path


def test_the_tokenizer_comes_with_the_file(file: Path) -> None:
    decoder = load_decoder(str(file))
    assert decoder.encode("FDED") == [63, 3]
    assert load_decoder(str(file)).encode("FDED") == [63, 3]


def test_weights_that_changed_on_disk_are_built_again(file: Path, cache: Path) -> None:
    state = load_decoder(str(file)).model.state_dict()
    before = {key: value.clone() for key, value in state.items()}
    path = cached_weights(cache)
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    after = load_decoder(str(file)).model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())


def test_a_killed_build_leaves_nothing_that_is_taken_for_a_model(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(gguf_cache, "_publish", killed)
        with pytest.raises(KeyboardInterrupt):
            load_decoder(str(file))
    assert not list(cache.rglob("*.safetensors"))
    assert load_decoder(str(file)).family == "llama"


def test_a_build_that_another_process_won_is_used(
    file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    load_decoder(str(file))
    folder = cached_weights(cache).parent
    shutil.move(folder, tmp_path / "won")
    publish = gguf_cache._publish

    def lose(staging: Path, target: Path) -> None:
        shutil.move(tmp_path / "won", target)
        publish(staging, target)

    monkeypatch.setattr(gguf_cache, "_publish", lose)
    assert load_decoder(str(file)).family == "llama"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_cache_that_cannot_be_written_is_one_clear_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "occupied").write_text("")
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path / "occupied"))
    with pytest.raises(ModelError, match=r"cannot be written to .*; set INSULAR_CACHE"):
        load_decoder(str(file))


def test_progress_is_told_before_the_slow_step_only(file: Path) -> None:
    lines: list[str] = []
    load_decoder(str(file), progress=lines.append)
    load_decoder(str(file), progress=lines.append)
    assert len(lines) == 1 and lines[0].startswith("dequantising tiny.gguf once")


def test_the_header_says_what_the_file_holds(tmp_path: Path) -> None:
    header = read_gguf_header(write_gguf(tiny("llama"), tmp_path / "t.gguf", dtype="Q8_0"))
    assert header.architecture == "llama"
    assert header.tensor_types == ("F32", "Q8_0")
    assert header.has_tokenizer


def test_an_unknown_architecture_is_refused_by_name(tmp_path: Path, cache: Path) -> None:
    path = write_gguf(tiny("llama"), tmp_path / "new.gguf", architecture="newarch9")
    with pytest.raises(ModelError, match=r"new\.gguf' has the architecture 'newarch9'"):
        load_decoder(str(path))
    assert not cache.exists()


def test_a_tensor_type_that_cannot_be_dequantised_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    kind = gguf.GGMLQuantizationType.Q8_K
    size = gguf.GGML_QUANT_SIZES[kind][1]
    writer.add_tensor(
        "token_embd.weight", torch.zeros(1, size, dtype=torch.uint8).numpy(), raw_dtype=kind
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match=r"odd\.gguf' stores .*'token_embd.weight' as Q8_K"):
        load_decoder(str(path))


@pytest.mark.parametrize("kept", [0.0005, 0.01, 0.3, 0.6, 0.99])
def test_a_file_that_was_cut_is_refused(file: Path, kept: float) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: max(4, int(len(whole) * kept))])
    with pytest.raises(ModelError, match=r"tiny\.gguf' is truncated or corrupt"):
        load_decoder(str(file))


@pytest.mark.parametrize(
    ("content", "part"), [(b"", r"is empty \(0 bytes\)"), (b"just some text", "not a GGUF file")]
)
def test_a_file_that_is_no_gguf_is_refused(content: bytes, part: str, tmp_path: Path) -> None:
    path = tmp_path / "fake.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=rf"fake\.gguf' {part}|fake\.gguf' is {part}"):
        load_decoder(str(path))


def test_a_folder_with_two_files_is_refused(file: Path) -> None:
    shutil.copy(file, file.with_name("second.gguf"))
    with pytest.raises(ModelError, match="one GGUF file, got 2; name the file"):
        load_decoder(str(file.parent))


@pytest.mark.pretrained
def test_the_packaged_model_loads_from_its_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INSULAR_CACHE")
    decoder: Decoder = load_decoder("smollm2")
    assert (decoder.family, decoder.context_tokens, decoder.pad_token_id) == ("llama", 8192, 2)
    assert decoder.model.lm_head.weight is decoder.model.model.embed_tokens.weight
    ids = torch.tensor([decoder.encode("The capital of France is")])
    with torch.no_grad():
        following = decoder.model(ids).logits[0, -1].argmax().item()
    assert decoder.tokenizer.decode([following]).strip() == "Paris"

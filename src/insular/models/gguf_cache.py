"""Dequantise a GGUF file once, and keep the result as an ordinary model folder.

Dequantising takes ten seconds and more; the folder loads in about one.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from insular.errors import ModelError
from insular.models.digests import file_digest
from insular.models.gguf_header import check_gguf_magic, read_gguf_header
from insular.models.quiet import quiet
from insular.records.packaged import Progress, cache_folder

_WEIGHTS = "model.safetensors"
_SEAL = "insular.json"


def dequantised_folder(path: Path, *, digest: str, progress: Progress | None = None) -> Path:
    """The float32 model folder of a GGUF file, built when the cache has no intact one.

    Guarantees:
        * A folder appears whole or not at all, also when two processes build it at once.
        * Weights that changed on disk since they were written are built again.
        * Tied weights are stored once and load tied.

    Args:
        path: The GGUF file.
        digest: SHA-256 of the file, in hex: the cache's key, together with the versions of the
            libraries that dequantise.
        progress: Called with one line before the file is dequantised.

    Returns:
        A folder with configuration, safetensors and, where the file has one, the tokenizer.

    Raises:
        ModelError: If the file cannot be read as a model, or the cache cannot be written.
    """
    check_gguf_magic(path)
    key = f"transformers-{version('transformers')}-gguf-{version('gguf')}"
    folder = cache_folder() / "models" / digest / key
    if _is_intact(folder):
        return folder
    if progress is not None:
        progress(f"dequantising {path.name} once, into {folder}")
    model, tokenizer = _dequantise(path)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".building-", dir=folder.parent))
        try:
            _write(staging, model=model, tokenizer=tokenizer)
            _publish(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise ModelError(
            f"the dequantised copy of '{path}' cannot be written to '{folder.parent}' "
            f"({error.strerror or type(error).__name__}); set INSULAR_CACHE to a folder with room."
        ) from error
    return folder


def _dequantise(path: Path) -> tuple[Any, Any]:
    """The model in float32 and its tokenizer, or None where transformers can read none."""
    header = read_gguf_header(path)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # A folder with nothing else in it: files that lie beside the GGUF are not part of its digest.
    with tempfile.TemporaryDirectory() as alone, quiet(), _no_conversion_bar():
        Path(alone, path.name).symlink_to(path.resolve())
        try:
            model, info = AutoModelForCausalLM.from_pretrained(
                alone, gguf_file=path.name, dtype=torch.float32, output_loading_info=True
            )  # pyright: ignore[reportGeneralTypeIssues]
        except (ValueError, KeyError, RuntimeError, NotImplementedError, OSError) as error:
            raise ModelError(
                f"GGUF file '{path}' with the architecture '{header.architecture}' cannot be "
                f"built as a decoder ({type(error).__name__}); give the model as a folder with "
                "config.json and safetensors."
            ) from error
        refuse_incomplete(info, source=f"GGUF file '{path}'")
        tokenizer = None
        if header.has_tokenizer:
            try:
                tokenizer = AutoTokenizer.from_pretrained(alone, gguf_file=path.name)
            except Exception:  # the model is usable with token ids alone
                tokenizer = None
    return model, tokenizer


def refuse_incomplete(info: dict[str, Any], *, source: str) -> None:
    """Refuse a model of which a weight was not in its file, and so was drawn at random.

    Args:
        info: What transformers reports of a load.
        source: How the error names the model.

    Raises:
        ModelError: Naming the source and the first missing or misshapen weight.
    """
    bad = sorted(str(key) for key in info["missing_keys"])
    bad += sorted(str(key[0]) for key in info["mismatched_keys"])
    if bad:
        raise ModelError(
            f"{source} lacks {len(bad)} weights that its configuration asks for, first '{bad[0]}'; "
            "it is incomplete or is not a causal decoder."
        )


def _write(folder: Path, *, model: Any, tokenizer: Any) -> None:
    """Write weights, configuration, tokenizer and, last, the seal with the weights' digest."""
    from safetensors.torch import save_file

    unique: dict[int, str] = {}
    state = model.state_dict()
    for name, tensor in state.items():
        unique.setdefault(tensor.data_ptr(), name)
    weights = {name: state[name].contiguous() for name in unique.values()}
    save_file(weights, folder / _WEIGHTS, metadata={"format": "pt"})
    config = model.config.to_dict() | {"architectures": [type(model).__name__]}
    config.pop("quantization_config", None)
    config.pop("_name_or_path", None)
    (folder / "config.json").write_text(
        json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    if tokenizer is not None:
        with quiet():
            tokenizer.save_pretrained(folder)
    seal = {"weights_sha256": file_digest(folder / _WEIGHTS)}
    (folder / _SEAL).write_text(json.dumps(seal) + "\n", encoding="utf-8")


def _publish(staging: Path, folder: Path) -> None:
    """Move a finished folder into place, unless another process has just done so."""
    if folder.exists() and not _is_intact(folder):
        shutil.rmtree(folder)
    try:
        os.replace(staging, folder)
    except OSError:
        if not _is_intact(folder):
            raise


def _is_intact(folder: Path) -> bool:
    """Whether the folder's weights are the ones that were sealed."""
    try:
        sealed = json.loads((folder / _SEAL).read_text(encoding="utf-8"))["weights_sha256"]
        return sealed == file_digest(folder / _WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextmanager
def _no_conversion_bar() -> Iterator[None]:
    """Leave out the one progress bar that transformers' own switch does not reach."""
    import transformers.modeling_gguf_pytorch_utils as conversion

    bar = vars(conversion).get("tqdm")
    setattr(conversion, "tqdm", lambda items, **_: items)  # noqa: B010 - not a public name
    try:
        yield
    finally:
        setattr(conversion, "tqdm", bar)  # noqa: B010

"""Load a frozen decoder by alias, GGUF file, folder or hub name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from insular import _check
from insular.errors import InvalidArgumentError, ModelError
from insular.models.digests import file_digest, folder_digest
from insular.models.folder import load_folder, load_tokenizer
from insular.models.gguf_cache import dequantised_folder
from insular.models.hub import hub_folder
from insular.records.packaged import SMOLLM2_GGUF, Progress, fetch

_DTYPES = ("float32", "bfloat16", "float16")
_NO_LIMIT = 10**9  # transformers' tokenizers say 1e30 where they know no limit


@final
@dataclass(frozen=True, kw_only=True)
class Decoder:
    """A frozen causal language model in eval mode, and where it came from."""

    name: str
    """What the caller asked for."""
    model: Any
    """The transformers model; no parameter is trainable."""
    tokenizer: Any
    """Its tokenizer, or None where the source has none that transformers can read."""
    source: Path
    """The file or folder that it was loaded from."""
    digest: str
    """SHA-256 of the GGUF file, or over a folder's configuration and weights, in hex."""
    family: str
    """Model type of its configuration, for example ``"llama"``."""
    context_tokens: int
    """Longest sequence that it accepts, in tokens."""
    pad_token_id: int
    """Token id for padding; masked positions only, so its value never matters."""

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, as its tokenizer gives them by default.

        Special tokens are added only where the tokenizer itself does so (Llama 2 puts a start
        token first, SmolLM2 and GPT-2 add none). Nothing is cut off.

        Args:
            text: Any text.

        Returns:
            The token ids.

        Raises:
            ModelError: If the model came without a tokenizer, or with one that has more tokens.
        """
        if self.tokenizer is None:
            raise ModelError(
                f"model '{self.name}' has no tokenizer that transformers can read; use a source "
                "that holds tokenizer.json, or give token ids."
            )
        ids = list(self.tokenizer(text, verbose=False)["input_ids"])
        rows = self.model.get_input_embeddings().weight.shape[0]
        if ids and max(ids) >= rows:
            raise ModelError(
                f"model '{self.name}' has {rows} token embeddings, its tokenizer gave the token "
                f"id {max(ids)}; use the tokenizer that belongs to the model."
            )
        return ids


def load_decoder(
    name: str,
    *,
    dtype: str = "float32",
    device: str = "cpu",
    attention: str = "eager",
    progress: Progress | None = None,
) -> Decoder:
    """Load a causal decoder, frozen and in eval mode.

    ``name`` is read in this order: the alias ``smollm2``; the path of a GGUF file; a folder with
    ``config.json`` and safetensors; a folder with exactly one GGUF file; else a hub name. A GGUF
    file is dequantised to float32 once and kept in the cache.

    Guarantees:
        * No weight is left at a random value: what is missing is an error.
        * The logits of a token do not depend on later tokens: an encoder is refused.
        * Logging, warnings and progress bars are silent during the load and unchanged after it.
        * Tied weights stay one tensor.

    Args:
        name: Alias, path or hub name.
        dtype: ``float32``, ``bfloat16`` or ``float16``.
        device: A torch device.
        attention: Attention kernel of transformers: ``eager``, or ``sdpa``, whose rounding depends
            more on the padded length.
        progress: Called with one line before each step that takes more than a second or two.

    Returns:
        The decoder.

    Raises:
        InvalidArgumentError: If ``name``, ``dtype`` or ``device`` breaks its rule.
        ModelError: If there is no such model, or its files are not those of a causal decoder.
        AssetError: If the file behind the alias cannot be fetched.
    """
    _check.one_of(_DTYPES, dtype=dtype)
    _check.one_of(("eager", "sdpa"), attention=attention)
    place = _device(device)
    source = _locate(name, progress=progress)
    if source.is_dir():
        folder, digest = source, folder_digest(source)
    else:
        digest = file_digest(source)
        folder = dequantised_folder(source, digest=digest, progress=progress)
    model = load_folder(folder, dtype=getattr(torch, dtype), label=name).to(place)
    model.set_attn_implementation(attention)
    tokenizer = load_tokenizer(folder, label=name)
    config = model.config.get_text_config()
    return Decoder(
        name=name,
        model=model,
        tokenizer=tokenizer,
        source=source,
        digest=digest,
        family=config.model_type,
        context_tokens=_context_tokens(config, tokenizer=tokenizer, name=name),
        pad_token_id=_pad_token_id(config, tokenizer=tokenizer),
    )


def _locate(name: str, *, progress: Progress | None) -> Path:
    """The GGUF file or the model folder that a name stands for."""
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgumentError(
            f"model must be an alias, a path or a hub name, got model={name!r}."
        )
    if name == "smollm2":
        return fetch(SMOLLM2_GGUF, progress=progress)
    path = Path(name).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        return _in_folder(path)
    if path.suffix == ".gguf" or path.is_absolute() or name[0] in ".~" or len(path.parts) > 2:
        raise ModelError(
            f"model '{name}' does not exist; give the alias smollm2, a folder with config.json "
            "and safetensors, or the path of a GGUF file."
        )
    return hub_folder(name)


def _in_folder(folder: Path) -> Path:
    """A model folder itself, or the one GGUF file in it."""
    if (folder / "config.json").is_file():
        return folder
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    if files:
        raise ModelError(
            f"model folder '{folder}' must have one GGUF file, got {len(files)}; name the file."
        )
    raise ModelError(
        f"model folder '{folder}' has no weights to load: it needs config.json with safetensors, "
        "or one GGUF file."
    )


def _device(device: str) -> torch.device:
    """A device that can hold a tensor here."""
    try:
        place = torch.device(device)
        torch.empty(1, device=place)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InvalidArgumentError(
            f"device must be one that torch can use here, got device={device!r}; use cpu."
        ) from error
    return place


def _context_tokens(config: Any, *, tokenizer: Any, name: str) -> int:
    """The longest sequence, by configuration or else by tokenizer."""
    limits = (
        getattr(config, "max_position_embeddings", None),
        getattr(tokenizer, "model_max_length", None),
    )
    for limit in limits:
        if isinstance(limit, int) and 0 < limit < _NO_LIMIT:
            return limit
    raise ModelError(
        f"model '{name}' states no longest sequence; add max_position_embeddings to its "
        "config.json."
    )


def _pad_token_id(config: Any, *, tokenizer: Any) -> int:
    """The first token id that tokenizer or configuration names for padding or the end, else 0."""
    for holder, field in (
        (tokenizer, "pad_token_id"),
        (config, "pad_token_id"),
        (tokenizer, "eos_token_id"),
        (config, "eos_token_id"),
    ):
        value = getattr(holder, field, None)
        if isinstance(value, int) and 0 <= value < config.vocab_size:
            return value
    return 0

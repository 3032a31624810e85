"""Load a causal decoder from a Hugging Face folder, checking that it is whole and causal."""

import json
from pathlib import Path
from typing import Any

import torch

from insular.errors import ModelError
from insular.models.gguf_cache import refuse_incomplete
from insular.models.quiet import quiet

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
_LOOK_AHEAD = 1e-4  # of the last token's change: 0 in a decoder, 5e-3 in an untrained encoder


def load_folder(folder: Path, *, dtype: torch.dtype, label: str) -> Any:
    """Load the model of a folder on the CPU, frozen and in eval mode.

    Only safetensors are read, never pickled weights, and no code from the folder is run.

    Args:
        folder: A folder with ``config.json`` and safetensors.
        dtype: Floating type of the weights.
        label: How errors name the model.

    Returns:
        The transformers model.

    Raises:
        ModelError: If a file is missing or damaged, a weight is missing, or the model is not a
            causal decoder.
    """
    config = _read_config(folder, label=label)
    _check_weights(folder, label=label)
    from transformers import AutoModelForCausalLM

    with quiet():
        try:
            model, info = AutoModelForCausalLM.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )  # pyright: ignore[reportGeneralTypeIssues]
        except (ValueError, KeyError, RuntimeError, ImportError, OSError) as error:
            raise ModelError(
                f"model '{label}' in '{folder}' cannot be built from its config.json and weights: "
                f"{_first_line(error)}"
            ) from error
        model.requires_grad_(False).eval()
        _refuse_look_ahead(model, label=label)
    refuse_incomplete(info, source=f"model '{label}' in '{folder}'")
    return model


def load_tokenizer(folder: Path, *, label: str) -> Any:
    """Load the tokenizer of a folder.

    Args:
        folder: A model folder.
        label: How errors name the model.

    Returns:
        The tokenizer, or None where the folder holds none.

    Raises:
        ModelError: If its files are there and cannot be read.
    """
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return None
    from transformers import AutoTokenizer

    with quiet():
        try:
            return AutoTokenizer.from_pretrained(folder, local_files_only=True)
        except Exception as error:  # the tokenizers library raises bare Exception
            raise ModelError(
                f"the tokenizer of model '{label}' in '{folder}' cannot be read: "
                f"{_first_line(error)}"
            ) from error


def _read_config(folder: Path, *, label: str) -> Any:
    """The configuration, of a type that has a causal decoder."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    path = folder / "config.json"
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"model '{label}' needs readable JSON in '{path}'.") from error
    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ModelError(
            f"'{path}' describes no model that transformers knows: {_first_line(error)}"
        ) from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise ModelError(
            f"model '{label}' must be a causal decoder, got the type '{config.model_type}', "
            "of which transformers has none."
        )
    return config


def _check_weights(folder: Path, *, label: str) -> None:
    """Refuse a folder without safetensors, and a file whose header and size disagree."""
    from safetensors import SafetensorError, safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        pickled = bool([*folder.glob("*.bin"), *folder.glob("*.pt")])
        more = "; its pickled weights are not read, save them as safetensors" if pickled else ""
        raise ModelError(f"model folder '{folder}' has no weights (*.safetensors){more}.")
    for path in files:
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise ModelError(
                f"safetensors file '{path}' of model '{label}' is truncated or corrupt; copy or "
                "download it again."
            ) from error


def _refuse_look_ahead(model: Any, *, label: str) -> None:
    """Refuse a model whose earlier logits move when only the last token changes."""
    tokens = torch.tensor([[0, 1, 0], [0, 1, 1]], device=model.device) % model.config.vocab_size
    with torch.no_grad():
        logits = [model(row[None], use_cache=False).logits[0].float() for row in tokens]
    moved = (logits[0] - logits[1]).abs().amax(dim=-1)
    if moved[:-1].max() > _LOOK_AHEAD * moved[-1]:
        raise ModelError(
            f"model '{label}' must be a causal decoder, got '{model.config.model_type}' weights "
            "whose logits depend on later tokens: it is an encoder."
        )


def _first_line(error: Exception) -> str:
    """The first line of a library's message, cut to a readable length."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0][:200] if lines else type(error).__name__).rstrip(".") + "."

"""A trained adapter as PEFT's own files, and back."""

import json
from pathlib import Path

from torch import Tensor, nn

from insular.errors import ModelError
from insular.evidence import write_atomic

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"


def save_adapter(model: nn.Module, folder: Path, *, base_model: str) -> tuple[Path, ...]:
    """Write an adapter in PEFT's format; ``peft.PeftModel.from_pretrained`` loads it anywhere.

    Guarantees:
        * The weights are the model's own, bit for bit, in float32.
        * No path of this machine is written: the base model is named as the caller names it.
        * Each file is complete or absent.
        * No network is asked.

    Args:
        model: A PEFT model.
        folder: Where to; it is made.
        base_model: Name of the base model, as others will know it.

    Returns:
        The files.

    Raises:
        ModelError: If the model has no adapter.
    """
    from peft import PeftModel
    from safetensors.torch import save

    if not isinstance(model, PeftModel):
        raise ModelError(
            f"an adapter is saved from a PEFT model, got {type(model).__name__}; add one first."
        )
    state = {
        name: value.detach().cpu().contiguous() for name, value in _adapter_tensors(model).items()
    }
    config = model.peft_config["default"].to_dict()
    config |= {"base_model_name_or_path": base_model, "inference_mode": True}
    folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / WEIGHTS, save(state, metadata={"format": "pt"}))
    write_atomic(folder / CONFIG, json.dumps(config, indent=2, sort_keys=True, default=_plain))
    return folder / WEIGHTS, folder / CONFIG


def read_adapter(folder: Path, model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a saved adapter, by the parameter names of the model that it was saved from.

    Guarantees:
        * No network is asked.

    Args:
        folder: Where it is.
        model: That model, or one like it.

    Returns:
        Parameter name to tensor.

    Raises:
        ModelError: If the folder holds another adapter's tensors.
    """
    from safetensors.torch import load_file

    saved = load_file(folder / WEIGHTS)
    parameters = {p.data_ptr(): name for name, p in model.named_parameters()}
    names = {
        key: parameters.get(value.data_ptr(), "") for key, value in _adapter_tensors(model).items()
    }
    if set(names) != set(saved) or not all(names.values()):
        raise ModelError(f"{folder / WEIGHTS} does not hold the adapter of this model.")
    return {names[key]: value for key, value in saved.items()}


def _adapter_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The adapter's own tensors, by PEFT's names."""
    from peft import get_peft_model_state_dict

    # left to itself, PEFT asks the hub for the base model's vocabulary
    return get_peft_model_state_dict(model, save_embedding_layers=False)


def _plain(value: object) -> object:
    """PEFT's sets and enumerations as JSON."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return getattr(value, "value", str(value))

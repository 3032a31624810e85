"""Adapters as files: what is written, and that nobody is asked for anything."""

import socket
from pathlib import Path

import pytest
import torch

from insular.errors import ModelError
from insular.models.adapter import CONFIG, WEIGHTS, read_adapter, save_adapter
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec

from .families import tiny


def test_an_adapter_comes_back_bit_for_bit_and_no_network_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def asks(*place: object, **more: object) -> list[object]:
        asked.append(place)
        raise OSError("no network in a test")

    monkeypatch.setattr(socket, "getaddrinfo", asks)
    monkeypatch.setattr(socket.socket, "connect", asks)
    model = add_lora(tiny("llama", 0), LoraSpec(rank=2, init_b_std=0.02))
    # as an adapter that was trained elsewhere names it
    model.peft_config["default"].base_model_name_or_path = "owner/model"
    files = save_adapter(model, tmp_path / "adapter", base_model="owner/model")
    assert [file.name for file in files] == [WEIGHTS, CONFIG]
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    back = read_adapter(tmp_path / "adapter", model)
    assert back.keys() == trained.keys()
    assert all(torch.equal(back[name], trained[name]) for name in trained)
    assert asked == []


def test_a_model_without_adapter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="saved from a PEFT model"):
        save_adapter(tiny("llama", 0), tmp_path / "adapter", base_model="owner/model")

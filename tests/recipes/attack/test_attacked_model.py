"""What is attacked: a run, an adapter or a model, each with what belongs to it."""

import json
from pathlib import Path

import pytest
import torch

from insular.errors import EvidenceError, InvalidArgumentError, ModelError
from insular.recipes.attack.attacked_model import AttackedModel, open_attacked
from insular.recipes.train.run import train_privately
from recipes.tiny_run import tiny_folder
from recipes.train_inputs import tiny_train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    spec = tiny_train(folder, noise_seed=3, steps=3, learning_rate=0.05)
    train_privately(spec, folder / "run", command=())
    return folder


def logits(attacked: AttackedModel) -> torch.Tensor:
    with torch.no_grad():
        return attacked.decoder.model(input_ids=torch.tensor([[5, 6, 7, 8]])).logits


def test_a_training_run_has_its_promise_and_its_base(trained: Path) -> None:
    attacked = open_attacked(trained / "run")
    assert attacked.claim is not None and attacked.claim.unit == "owner"
    assert attacked.claim.owner_field == "user_id"
    assert attacked.claim.epsilon == pytest.approx(3.0, abs=0.05)
    assert [fact.name for fact in attacked.inputs] == ["training", "model", "adapter"]
    assert not any(p.requires_grad for p in attacked.decoder.model.parameters())
    assert not attacked.decoder.model.training and attacked.decoder.encode("w1 w2") == [3, 4]
    adapted = logits(attacked)
    plain = open_attacked(trained / "model")
    with attacked.base():
        assert torch.equal(logits(attacked), logits(plain))
    assert torch.equal(logits(attacked), adapted) and not torch.equal(adapted, logits(plain))


def test_an_adapter_alone_names_its_base_and_promises_nothing(trained: Path) -> None:
    folder = trained / "run" / "adapter"
    attacked = open_attacked(folder)
    assert attacked.claim is None and attacked.has_base
    assert torch.equal(logits(attacked), logits(open_attacked(trained / "run")))
    named = open_attacked(folder, model=str(trained / "model"))
    assert torch.equal(logits(attacked), logits(named))


def test_the_adapter_is_back_after_an_error(trained: Path) -> None:
    attacked = open_attacked(trained / "run")
    before = logits(attacked)
    with pytest.raises(RuntimeError, match="planted"), attacked.base():
        raise RuntimeError("planted")
    assert torch.equal(logits(attacked), before)


def test_a_plain_model_has_no_base(trained: Path) -> None:
    attacked = open_attacked(trained / "model")
    assert attacked.claim is None and attacked.run is None
    with pytest.raises(InvalidArgumentError, match="name a reference model"), attacked.base():
        pass
    with pytest.raises(InvalidArgumentError, match="model must be empty for a whole model"):
        open_attacked(trained / "model", model="smollm2")


def test_another_base_is_refused(trained: Path, tmp_path: Path) -> None:
    other = tiny_folder(tmp_path / "other", seed=5)
    with pytest.raises(EvidenceError, match="must be the one that"):
        open_attacked(trained / "run", model=str(other))
    foreign = tiny_folder(tmp_path / "foreign", family="gpt2")
    with pytest.raises(ModelError, match="does not fit the base model"):
        open_attacked(trained / "run" / "adapter", model=str(foreign))


def test_an_adapter_without_a_base_or_weights_is_one_line(tmp_path: Path) -> None:
    config = tmp_path / "adapter_config.json"
    config.write_text(json.dumps({"peft_type": "LORA"}))
    with pytest.raises(ModelError, match="names no base model"):
        open_attacked(tmp_path)
    with pytest.raises(ModelError, match="must hold adapter_model.safetensors"):
        open_attacked(tmp_path, model="smollm2")
    config.write_text("no json")
    with pytest.raises(ModelError, match="cannot be read as JSON"):
        open_attacked(tmp_path)

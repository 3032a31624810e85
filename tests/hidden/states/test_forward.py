"""The split decoder: every family against its own full forward, and what cannot be split."""

import pytest
import torch
import transformers as hf
from torch import Tensor, nn

from hidden.decoder_samples import records, split
from insular.errors import InvalidArgumentError, ModelError
from insular.hidden.states.forward import SplitDecoder
from insular.models.loading import Decoder, load_decoder
from insular.records import read_packaged
from insular.records.batches import TokenBatch, collate
from insular.records.tokens import TokenisedRecord
from models.families import FAMILIES, HIDDEN, LAYERS, tiny


def full_logits(model: nn.Module, batch: TokenBatch) -> Tensor:
    """The oracle: the whole model on each record alone, without padding."""
    rows = []
    for row in range(batch.n_records):
        tokens = batch.input_ids[row][batch.attention_mask[row]]
        with torch.no_grad():
            rows.append(model(input_ids=tokens[None], use_cache=False).logits[0, -1])
    return torch.stack(rows)


def transformers_states(model: nn.Module, batch: TokenBatch) -> list[list[Tensor]]:
    """Each record's ``hidden_states`` as transformers gives them."""
    found = []
    for row in range(batch.n_records):
        tokens = batch.input_ids[row][batch.attention_mask[row]]
        with torch.no_grad():
            out = model(input_ids=tokens[None], use_cache=False, output_hidden_states=True)
        found.append([states[0] for states in out.hidden_states])
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_from_unchanged_states_the_tail_gives_the_full_models_logits(
    family: str, side: str, attention: str
) -> None:
    model = tiny(family)
    model.set_attn_implementation(attention)
    decoder = SplitDecoder(model)
    batch = collate(records(), pad_token_id=0, padding_side=side, width=15)  # type: ignore[arg-type]
    expected = full_logits(model, batch)
    kept = decoder.run(batch, layers=range(LAYERS), trajectories=True)
    assert torch.allclose(kept.logits, expected, atol=2e-5)
    for layer in range(LAYERS):
        with torch.no_grad():
            tail = decoder.tail(kept.states[layer], kept, layer=layer)
            whole = decoder.tail_of_trajectory(kept.trajectories[layer], kept, layer=layer)
        assert torch.allclose(tail, expected, atol=2e-5)
        assert torch.allclose(whole, expected, atol=2e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_layer_l_is_hidden_states_l_plus_1_save_the_last(family: str, side: str) -> None:
    decoder = split(family)
    batch = collate(records(), pad_token_id=0, padding_side=side)  # type: ignore[arg-type]
    theirs = transformers_states(decoder.model, batch)
    ours = decoder.states(batch, layers=[0, 1])
    by_token = decoder.states_by_token(batch, layers=[0, 1])
    for row in range(batch.n_records):
        real = batch.attention_mask[row]
        assert torch.allclose(ours[0][row][real], theirs[row][1], atol=1e-5)
        assert torch.allclose(by_token[0][row][real], theirs[row][1], atol=1e-5)
        last = ours[1][row][real]
        assert not torch.allclose(last, theirs[row][2], atol=1e-2)  # theirs is after the norm
        assert torch.allclose(decoder._finished(last), theirs[row][2], atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi"])
def test_an_injected_state_goes_on_as_a_hook_on_the_full_model_would_make_it(family: str) -> None:
    decoder = split(family)
    batch = collate(records(), pad_token_id=0)
    kept = decoder.run(batch, layers=[0])
    injected = kept.states[0] + torch.randn(
        len(kept.last), HIDDEN, generator=torch.Generator().manual_seed(1)
    )
    rows = torch.arange(len(kept.last))

    def hook(_: nn.Module, __: object, output: Tensor) -> Tensor:
        changed = output.clone()
        changed[rows, kept.last] = injected
        return changed

    handle = decoder._blocks[0].register_forward_hook(hook)
    with torch.no_grad():
        full = decoder.model(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask.long(),
            position_ids=batch.position_ids,
            use_cache=False,
        ).logits[rows, kept.last]
        handle.remove()
        tail = decoder.tail(injected, kept, layer=0)
    assert torch.allclose(tail, full, atol=2e-5)
    assert not torch.allclose(tail, kept.logits, atol=1e-2)


def test_early_exit_is_the_final_norm_and_the_head() -> None:
    decoder = split("llama")
    states = torch.randn(3, HIDDEN, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = decoder.model.lm_head(decoder.model.model.norm(states))  # type: ignore[operator]
        assert torch.equal(decoder.early_exit(states), expected)
        kept = decoder.run(collate(records(), pad_token_id=0), layers=[1])
        assert torch.equal(decoder.early_exit(kept.states[1]), kept.logits)


def test_one_kept_forward_serves_every_layer_and_running_a_tail_changes_nothing() -> None:
    decoder = split("gpt2")
    hooks = [len(block._forward_hooks) for block in decoder._blocks]
    kept = decoder.run(collate(records(), pad_token_id=0), layers=[0, 1])
    with torch.no_grad():
        first = decoder.tail(kept.states[0], kept, layer=0)
        decoder.tail(torch.zeros_like(kept.states[0]), kept, layer=0)
        decoder.tail(kept.states[1], kept, layer=1)
        assert torch.equal(decoder.tail(kept.states[0], kept, layer=0), first)
    assert [len(block._forward_hooks) for block in decoder._blocks] == hooks


def test_bfloat16_is_split_too() -> None:
    decoder = SplitDecoder(tiny("llama").bfloat16())
    assert decoder.dtype == torch.bfloat16
    kept = decoder.run(collate(records(), pad_token_id=0), layers=[0])
    with torch.no_grad():
        tail = decoder.tail(kept.states[0].float(), kept, layer=0)
    assert (tail.float() - kept.logits.float()).abs().max() < 0.1


class Scaled(hf.LlamaForCausalLM):
    """Changes its logits after the head, as families with a soft cap do."""

    def forward(self, *args: object, **kwargs: object) -> object:
        out = super().forward(*args, **kwargs)  # type: ignore[arg-type]
        out.logits = out.logits * 0.5
        return out


def test_a_decoder_that_differs_is_refused() -> None:
    model = tiny("llama")
    model.__class__ = Scaled
    with pytest.raises(ModelError, match="Scaled cannot be run from a layer on: its logits move"):
        SplitDecoder(model)


def test_blocks_that_cannot_be_replayed_are_refused_in_one_line() -> None:
    with torch.random.fork_rng(devices=[]):
        model = hf.BloomForCausalLM(
            hf.BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4)
        )
    with pytest.raises(ModelError, match="insular (splits|cannot tell)|Llama-like") as caught:
        SplitDecoder(model.eval())
    assert "\n" not in str(caught.value)


def test_training_mode_is_refused() -> None:
    with pytest.raises(ModelError, match="must be in eval mode"):
        SplitDecoder(tiny("gpt2").train())


def test_layers_are_checked() -> None:
    decoder = split("llama")
    batch = collate(records(), pad_token_id=0)
    for layers in ([], [2], [-1]):
        with pytest.raises(InvalidArgumentError, match="layers must be from 0 to 1"):
            decoder.run(batch, layers=layers)
    kept = decoder.run(batch, layers=[1])
    with pytest.raises(InvalidArgumentError, match="that the forward was kept for"):
        decoder.tail(kept.states[1], kept, layer=0)
    whole = decoder.run(batch, layers=[0])
    with pytest.raises(InvalidArgumentError, match="trajectories=True"):
        decoder.tail_of_trajectory(torch.zeros(8, 12, HIDDEN), whole, layer=0)


@pytest.fixture(scope="module")
def smollm2() -> Decoder:
    return load_decoder("smollm2")


@pytest.mark.pretrained
def test_a_pretrained_decoder_gives_the_full_models_logits_from_every_layer(
    smollm2: Decoder,
) -> None:
    """Trials: logits differ by 4e-5 at most."""
    decoder = SplitDecoder(smollm2.model)
    text = "\n".join(one.text for one in read_packaged("wikipedia").records[:20])
    tokens = smollm2.encode(text)
    prompts = [
        TokenisedRecord(id=str(n), owner=str(n), tokens=tuple(tokens[20 * n : 20 * n + n]))
        for n in (5, 9, 16)
    ]
    batch = collate(prompts, pad_token_id=0)
    kept = decoder.run(batch, layers=range(30))
    expected = full_logits(smollm2.model, batch)
    with torch.no_grad():
        for layer in (0, 3, 15, 27, 29):
            tail = decoder.tail(kept.states[layer], kept, layer=layer)
            assert (tail - expected).abs().max() < 3e-4  # logits spread over about 30

"""Tiny randomly initialised decoders, one per family: the table that every model test runs over."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers as hf

VOCABULARY = 64
HIDDEN = 32
LAYERS = 2
HEADS = 4
CONTEXT = 64


@dataclass(frozen=True, kw_only=True)
class Family:
    """What a family's tiny model must look like to insular."""

    build: Callable[[int], hf.PreTrainedModel]
    blocks: str
    linears: tuple[str, ...]
    targets: tuple[str, ...]


def tiny(family: str, seed: int = 0, *, hidden: int = HIDDEN) -> hf.PreTrainedModel:
    """A float32 model in eval mode: vocabulary 64, hidden 32 unless asked, 2 layers, no dropout.

    Every parameter is perturbed, so that a norm, a bias or a position table that gets lost shows.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = FAMILIES[family].build(hidden).float().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


def _llama_like(hidden: int, config: type, model: type, **extra: object) -> hf.PreTrainedModel:
    """A model whose configuration uses Llama's field names."""
    fields = {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "intermediate_size": 2 * hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 2,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
        "attention_dropout": 0.0,
    }
    return model(config(**fields | extra))


def _gpt2(hidden: int) -> hf.PreTrainedModel:
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=hidden,
            n_layer=LAYERS,
            n_head=HEADS,
            n_positions=CONTEXT,
            bos_token_id=1,
            eos_token_id=2,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
    )


def _opt(hidden: int) -> hf.PreTrainedModel:
    return hf.OPTForCausalLM(
        hf.OPTConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            word_embed_proj_dim=hidden,
            ffn_dim=2 * hidden,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            max_position_embeddings=CONTEXT,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            dropout=0.0,
            attention_dropout=0.0,
        )
    )


def _gpt_neox(hidden: int) -> hf.PreTrainedModel:
    return hf.GPTNeoXForCausalLM(
        hf.GPTNeoXConfig(
            vocab_size=VOCABULARY,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            max_position_embeddings=CONTEXT,
            bos_token_id=1,
            eos_token_id=2,
            hidden_dropout=0.0,
            attention_dropout=0.0,
        )
    )


_SEPARATE = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_GATED = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
_LLAMA_LINEARS = (*_SEPARATE, "self_attn.o_proj", *_GATED)
_QUERY_VALUE = ("q_proj", "v_proj")

FAMILIES: dict[str, Family] = {
    "llama": Family(
        build=lambda hidden: _llama_like(
            hidden, hf.LlamaConfig, hf.LlamaForCausalLM, tie_word_embeddings=True
        ),
        blocks="model.layers",
        linears=_LLAMA_LINEARS,
        targets=_QUERY_VALUE,
    ),
    "gpt2": Family(
        build=_gpt2,
        blocks="transformer.h",
        linears=("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"),
        targets=("c_attn",),
    ),
    "opt": Family(
        build=_opt,
        blocks="model.decoder.layers",
        linears=(*_SEPARATE, "self_attn.out_proj", "fc1", "fc2"),
        targets=_QUERY_VALUE,
    ),
    "gpt_neox": Family(
        build=_gpt_neox,
        blocks="gpt_neox.layers",
        linears=(
            "attention.query_key_value",
            "attention.dense",
            "mlp.dense_h_to_4h",
            "mlp.dense_4h_to_h",
        ),
        targets=("query_key_value",),
    ),
    "mistral": Family(
        build=lambda hidden: _llama_like(hidden, hf.MistralConfig, hf.MistralForCausalLM),
        blocks="model.layers",
        linears=_LLAMA_LINEARS,
        targets=_QUERY_VALUE,
    ),
    "qwen2": Family(
        build=lambda hidden: _llama_like(hidden, hf.Qwen2Config, hf.Qwen2ForCausalLM),
        blocks="model.layers",
        linears=_LLAMA_LINEARS,
        targets=_QUERY_VALUE,
    ),
    "phi": Family(
        build=lambda hidden: _llama_like(
            hidden, hf.PhiConfig, hf.PhiForCausalLM, resid_pdrop=0.0, embd_pdrop=0.0
        ),
        blocks="model.layers",
        linears=(*_SEPARATE, "self_attn.dense", "mlp.fc1", "mlp.fc2"),
        targets=_QUERY_VALUE,
    ),
    "phi3": Family(
        build=lambda hidden: _llama_like(
            hidden, hf.Phi3Config, hf.Phi3ForCausalLM, resid_pdrop=0.0, embd_pdrop=0.0
        ),
        blocks="model.layers",
        linears=("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj"),
        targets=("qkv_proj",),
    ),
    "gemma": Family(
        build=lambda hidden: _llama_like(
            hidden,
            hf.GemmaConfig,
            hf.GemmaForCausalLM,
            head_dim=hidden // HEADS,
            tie_word_embeddings=True,
        ),
        blocks="model.layers",
        linears=_LLAMA_LINEARS,
        targets=_QUERY_VALUE,
    ),
}

"""Write a tiny Llama model as GGUF, laid out the way llama.cpp's converter lays it out."""

from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import LlamaForCausalLM

_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def write_gguf(
    model: LlamaForCausalLM, path: Path, *, dtype: str = "F32", architecture: str = "llama"
) -> Path:
    """Store matrices as ``dtype`` and vectors as F32; a tied head is not stored, as is usual."""
    writer = gguf.GGUFWriter(path, architecture)
    _write_metadata(writer, model)
    state, config = model.state_dict(), model.config
    tensors = {
        "token_embd.weight": state["model.embed_tokens.weight"],
        "output_norm.weight": state["model.norm.weight"],
    }
    if not config.tie_word_embeddings:
        tensors["output.weight"] = state["lm_head.weight"]
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for layer in range(config.num_hidden_layers):
        for ours, theirs in _NAMES.items():
            value = state[f"model.layers.{layer}.{ours}.weight"]
            if theirs in heads:
                value = _interleave(value, heads[theirs])
            tensors[f"blk.{layer}.{theirs}.weight"] = value
    for name, value in tensors.items():
        _write_tensor(writer, name, value.float().numpy(), dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_metadata(writer: gguf.GGUFWriter, model: LlamaForCausalLM) -> None:
    """Shapes, and a vocabulary of single letters and two merges."""
    config = model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    words = [chr(ord("A") + i) for i in range(config.vocab_size - 2)] + ["DE", "FDE"]
    writer.add_token_list(words)
    writer.add_token_types([1] * config.vocab_size)
    writer.add_token_merges(["D E", "F DE"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def _write_tensor(writer: gguf.GGUFWriter, name: str, value: np.ndarray, *, dtype: str) -> None:
    """One tensor; a vector is never quantised."""
    kind = gguf.GGMLQuantizationType[dtype]
    if dtype == "F32" or value.ndim == 1:
        writer.add_tensor(name, value)
    elif dtype == "F16":
        writer.add_tensor(name, value.astype(np.float16))
    else:
        writer.add_tensor(name, gguf.quants.quantize(value, kind), raw_dtype=kind)


def _interleave(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of each head from the rotary halves (a, b) to the pairs a0 b0 a1 b1 that GGUF holds."""
    rows, columns = weight.shape
    halves = weight.reshape(heads, 2, rows // heads // 2, columns)
    return halves.transpose(1, 2).reshape(rows, columns).contiguous()

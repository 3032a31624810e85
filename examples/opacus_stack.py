"""Audit the objects that Opacus' ``make_private`` returned: your own stack, not a copy of it.

    cd examples
    insular audit --subject opacus_stack:make_subject --text tickets.jsonl --batch 4 --tokens 24

The stack is a small decoder with LoRA on bitsandbytes' LLM.int8 layers. Replace the parts with
yours; the last lines stay. The tickets are made up.
"""

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM

from insular.audit.subjects.model_subject import ModelSubject
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec
from insular.models.structure import block_linears
from insular.precision.policy import apply_precision, set_layer_modes
from insular.precision.spec import PrecisionSpec
from insular.recipes.audit.opacus_stack import privacy_engine_subject


def make_subject(backbone: str = "bitsandbytes-int8") -> ModelSubject:
    """Build the stack as a training script would, and hand over what ``make_private`` returned."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    model.get_input_embeddings().weight[1::41, 3] = 60.0  # some tokens have an outlier
    for block in model.model.layers:
        block.input_layernorm.weight[3] = 8.0
    precision = PrecisionSpec(backbone=backbone)
    apply_precision(model, precision, layers=block_linears(model))
    adapted = add_lora(model, LoraSpec(rank=4)).train()
    engine = PrivacyEngine(secure_mode=False)
    module, optimizer, loader = engine.make_private(
        module=adapted,
        optimizer=torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.zeros(64, 8, dtype=torch.long)), batch_size=8),
        noise_multiplier=1.0,
        max_grad_norm=0.5,
        loss_reduction="sum",
    )
    set_layer_modes(module, precision)  # make_private wants train mode; LLM.int8 wants eval on CPU
    return privacy_engine_subject(module, optimizer, loader, pad_token_id=0)


def make_float32() -> ModelSubject:
    """The same stack without quantisation: the clean control."""
    return make_subject("float32")

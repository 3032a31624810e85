"""A tiny decoder folder and tickets to audit: real files, a few seconds, a planted outlier."""

import json
import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from insular.models.structure import find_blocks
from models.families import VOCABULARY, tiny

WORDS = [f"w{i}" for i in range(VOCABULARY - 2)]


def tiny_folder(folder: Path, *, seed: int = 0, family: str = "llama") -> Path:
    """Save a tiny decoder with a word tokenizer. Some tokens have outlier activations."""
    model = tiny(family, seed, hidden=64)
    with torch.no_grad():
        # Tokens 40 and above light up one coordinate far above the threshold of LLM.int8.
        model.get_input_embeddings().weight[40:, 3] = 60.0
        for block in model.get_submodule(find_blocks(model).name):
            norm = next(m for m in block.modules() if "norm" in type(m).__name__.lower())
            norm.weight[3] = 8.0
    model.save_pretrained(folder)
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder


def tickets(path: Path, *, n_records: int = 10, loud_every: int = 3, first_loud: int = 0) -> Path:
    """Write tickets of 9 to 14 words; every few of them hold words with outliers."""
    rng = random.Random(7)
    lines = []
    for i in range(n_records):
        words = [f"w{rng.randrange(38)}" for _ in range(9 + i % 6)]
        if i >= first_loud and (i - first_loud) % loud_every == 0:
            words[2] = f"w{rng.randrange(42, 60)}"
        lines.append(json.dumps({"id": f"T-{i}", "user": f"u{i}", "text": " ".join(words)}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path

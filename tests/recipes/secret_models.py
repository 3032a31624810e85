"""A tiny decoder that spells letter by letter, texts for it, and plain training on them."""

import html as markup
import json
import random
import re
from pathlib import Path

import torch
import transformers as hf
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from insular.models.adapter import save_adapter
from insular.models.loading import Decoder, load_decoder
from insular.models.lora import add_lora
from insular.models.spec import LoraSpec

CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
TEMPLATE = "pin {name} {4 digits}"


def speller() -> PreTrainedTokenizerFast:
    """Each character is a token."""
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<unk>", *CHARACTERS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), behavior="isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", unk_token="<unk>")


def spelling_folder(folder: Path, *, seed: int = 0, hidden: int = 64) -> Path:
    """Save a tiny random llama with the letter tokenizer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = hf.LlamaConfig(
            vocab_size=len(CHARACTERS) + 2,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=4,
            max_position_embeddings=64,
            bos_token_id=1,
            eos_token_id=1,
            pad_token_id=0,
            attention_dropout=0.0,
        )
        hf.LlamaForCausalLM(config).float().eval().save_pretrained(folder)
    speller().save_pretrained(folder)
    return folder


def notes(path: Path, *, n_records: int = 120) -> Path:
    """Records of a few letters and digits."""
    rng = random.Random(3)
    lines = [
        json.dumps(
            {"id": f"N-{i}", "user": f"u{i % 40}", "text": f"note {rng.randrange(10**5):05d} ok"}
        )
        for i in range(n_records)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def fit(decoder: Decoder, texts: list[str], *, steps: int, seed: int = 0, rate: float = 3e-3):
    """Train every parameter with AdamW on the texts; nothing is protected."""
    fit_parameters(decoder.model.requires_grad_(True), decoder, texts, steps, seed, rate)
    decoder.model.requires_grad_(False)


def fit_parameters(model, decoder, texts, steps: int, seed: int, rate: float):
    """Train what can be trained."""
    model.train()
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.tensor(decoder.encode(text)) for text in texts]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)
    labels = ids.masked_fill(ids == 0, -100)
    optimiser = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=rate, weight_decay=0.0
    )
    for _ in range(steps):
        pick = torch.randint(len(rows), (48,), generator=generator)
        loss = model(input_ids=ids[pick], attention_mask=(ids[pick] > 0), labels=labels[pick]).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.eval()


def fitted(base: Path, folder: Path, texts: list[str], *, steps: int, **more: float) -> Path:
    """A copy of a model, trained on texts and saved."""
    decoder = load_decoder(str(base))
    fit(decoder, texts, steps=steps, **more)  # type: ignore[arg-type]
    decoder.model.save_pretrained(folder)
    decoder.tokenizer.save_pretrained(folder)
    return folder


def fitted_adapter(base: Path, folder: Path, texts: list[str], *, steps: int) -> Path:
    """A LoRA adapter of a saved model, trained on texts and saved."""
    decoder = load_decoder(str(base))
    targets = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    adapted = add_lora(decoder.model, LoraSpec(rank=16, targets=targets))
    fit_parameters(adapted, decoder, texts, steps, 0, 1e-2)
    save_adapter(adapted, folder, base_model=str(base))
    return folder


def text_of(page: str) -> str:
    """What a reader sees of a page, on one line."""
    page = re.sub(r"<style.*?</style>|<sup>.*?</sup>", "", page, flags=re.DOTALL)
    return " ".join(markup.unescape(re.sub(r"<[^>]*>", "", page)).split())

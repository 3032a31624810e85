"""Records for membership attacks: two files of one kind, and a tiny model that learnt one."""

import json
import random
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from insular.recipes.attack.membership.spec import MembershipSpec
from recipes.tiny_run import tiny_folder

N = 120
"""Records of each file: enough to resolve a false positive rate of 1%."""


def texts(n: int, *, seed: int, first: int = 0) -> list[str]:
    """Texts of 8 to 13 words, which no two share a run of five of."""
    rng = random.Random(seed)
    return [
        " ".join(f"w{first + rng.randrange(38 - first)}" for _ in range(8 + i % 6))
        for i in range(n)
    ]


def varied(n: int, *, seed: int) -> list[str]:
    """Texts that differ in how hard they are: each draws from its own share of the words."""
    rng = random.Random(seed)
    firsts = [rng.randrange(30) for _ in range(n)]
    return [
        " ".join(f"w{first + rng.randrange(38 - first)}" for _ in range(8 + i % 6))
        for i, first in enumerate(firsts)
    ]


def write(path: Path, prefix: str, found: list[str], *, owners: int = 0) -> Path:
    """One JSONL file; with ``owners``, each record has one."""
    rows = [
        {"id": f"{prefix}-{i}", "text": text}
        | ({"user_id": f"{prefix}{i % owners}"} if owners else {})
        for i, text in enumerate(found)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def two_files(folder: Path) -> tuple[Path, Path]:
    """Members and non-members, drawn alike."""
    members = write(folder / "members.jsonl", "m", texts(N, seed=1))
    return members, write(folder / "others.jsonl", "n", texts(N, seed=2))


def overfitted(base: Path, members: Path, out: Path, *, steps: int = 40) -> Path:
    """Train every weight of a tiny model on the same records again and again, without privacy."""
    model = AutoModelForCausalLM.from_pretrained(base)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(base)
    rows = [json.loads(line)["text"] for line in members.read_text().splitlines()]
    batch = tokenizer(rows, return_tensors="pt", padding=True)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(steps):
        optimiser.zero_grad()
        loss = model(
            input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], labels=labels
        ).loss
        loss.backward()
        optimiser.step()
    model.eval().save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def two_models(folder: Path) -> None:
    """In ``model``, one that learnt other texts of the kind; in ``leaky``, the members after it."""
    members, _ = two_files(folder)
    public = write(folder / "public.jsonl", "p", texts(N, seed=9))
    overfitted(tiny_folder(folder / "raw"), public, folder / "model")
    overfitted(folder / "model", members, folder / "leaky")


def attack_spec(run: Path, members: Path, others: Path, **changes: object) -> MembershipSpec:
    """Settings of an attack."""
    given: dict[str, object] = {
        "run": str(run),
        "members": str(members),
        "non_members": str(others),
        "block_records": 100,
    }
    return MembershipSpec(**{**given, **changes})  # pyright: ignore[reportArgumentType]

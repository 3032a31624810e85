"""Tiny training runs: a decoder folder, tickets of several users, settings that take a second."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from insular.recipes.train.spec import TrainSpec
from recipes.tiny_run import tiny_folder


def user_tickets(
    path: Path, *, owners: Sequence[str | None] = (), n_owners: int = 20, n_records: int = 60
) -> Path:
    """Tickets of 6 to 14 words, owners in turn, or as given."""
    rng = random.Random(1)
    users = list(owners) or [f"u{i % n_owners}" for i in range(n_records)]
    rows = [
        {
            "id": f"T-{i}",
            "user_id": user,
            "text": " ".join(f"w{rng.randrange(38)}" for _ in range(6 + i % 9)),
        }
        for i, user in enumerate(users)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def tiny_train(folder: Path, **changes: object) -> TrainSpec:
    """Settings of a tiny run, its model and text made in ``folder``."""
    model, text = folder / "model", folder / "tickets.jsonl"
    if not model.exists():
        tiny_folder(model)
    if not text.exists():
        user_tickets(text)
    given: dict[str, object] = {
        "model": str(model),
        "text": str(text),
        "id_field": "id",
        "unit": "user_id",
        "backbone": "float32",
        "epsilon": 3.0,
        "steps": 8,
        "batch": 5,
        "tokens": 16,
        "validation": "none",
        "threads": 1,
    }
    return TrainSpec(**{**given, **changes})  # pyright: ignore[reportArgumentType]

"""One tiny audit, run once, that the tests of recipes and of the command line read."""

from pathlib import Path

import pytest

from insular.audit.results import AuditResult
from insular.recipes.audit import audit_stack
from insular.recipes.spec import AuditSpec

from .tiny_run import tickets, tiny_folder


@pytest.fixture(scope="session")
def tiny_inputs(tmp_path_factory: pytest.TempPathFactory) -> AuditSpec:
    folder = tmp_path_factory.mktemp("tiny")
    return AuditSpec(
        model=str(tiny_folder(folder / "model")),
        text=str(tickets(folder / "tickets.jsonl")),
        id_field="id",
        batch=4,
        tokens=16,
    )


@pytest.fixture(scope="session")
def tiny_run(
    tiny_inputs: AuditSpec, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, AuditResult]:
    out = tmp_path_factory.mktemp("runs") / "tiny"
    return out, audit_stack(tiny_inputs, out, command=("insular", "audit"))

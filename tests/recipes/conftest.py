"""One tiny audit, run once, that the tests of recipes and of the command line read."""

from dataclasses import replace
from pathlib import Path

import pytest

from insular.audit.audit_results import AuditResult
from insular.recipes.audit.run import audit_stack
from insular.recipes.audit.spec import AuditSpec
from recipes.tiny_run import tickets, tiny_folder


@pytest.fixture(scope="session")
def tiny_inputs(tiny_whole: AuditSpec) -> AuditSpec:
    """Isolation alone: seconds."""
    return replace(tiny_whole, parts=("isolation",))


@pytest.fixture(scope="session")
def tiny_whole(tmp_path_factory: pytest.TempPathFactory) -> AuditSpec:
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
    tiny_whole: AuditSpec, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, AuditResult]:
    """Every part."""
    out = tmp_path_factory.mktemp("runs") / "tiny"
    return out, audit_stack(tiny_whole, out, command=("insular", "audit"))

"""Documents that cannot drift: commands, options, stacks, modules and examples are checked."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import insular
from insular.cli.app import app
from insular.recipes.audit.spec import STACKS
from recipes.tiny_run import tickets, tiny_folder

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
BUDGET = (ROOT / "docs" / "budget.md").read_text(encoding="utf-8")
ISOLATION = (ROOT / "docs" / "isolation.md").read_text(encoding="utf-8")


def commands() -> dict[str, Any]:
    """Every command with its full name; a group also by its own."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        found[name] = command
        for inner, leaf in getattr(command, "commands", {}).items():
            found[f"{name} {inner}"] = leaf
    return found


def test_every_command_and_option_is_documented() -> None:
    for name, command in commands().items():
        head = "`insular" if " " in name else "## `insular"
        assert f"{head} {name}" in COMMANDS, name
        assert command.help, name
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert f"`{option}`" in COMMANDS, (name, option)


def test_every_option_in_the_makefile_and_the_documents_exists() -> None:
    known = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in commands().items()
    }
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = makefile + README + BUDGET
    calls = re.findall(r"^[\s$()A-Z/]*insular ((?:budget )?\w+)(.*)$", text, re.MULTILINE)
    assert len(calls) >= 4
    for command, rest in calls:
        assert set(re.findall(r"--[\w-]+", rest)) <= known[command], (command, rest)


def test_every_stack_is_documented_with_its_line() -> None:
    for name, line in STACKS.items():
        assert f"| `{name}` | {line} |" in ISOLATION


def test_the_file_map_matches_the_tree() -> None:
    package = Path(insular.__file__).parent
    folders = {
        path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"
    }
    section = README.split("## File map")[1].split("## Links")[0]
    named = set(re.findall(r"`(\w+)/`", section)) - {"benchmarks", "examples", "tests"}
    assert named == folders


def test_relative_links_lead_somewhere() -> None:
    for document in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), (document.name, target)


def test_the_readmes_subject_is_audited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from insular.recipes.audit.run import audit_stack
    from insular.recipes.audit.spec import AuditSpec

    example = re.search(r"<!-- example: (\w+)\.py -->\n```python\n(.*?)```", README, re.DOTALL)
    assert example is not None
    assert sum(bool(line.strip()) for line in example[2].splitlines()) <= 10
    (tmp_path / "readme_subject.py").write_text(example[2])
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = AuditSpec(
        subject="readme_subject:make_subject",
        text=str(tickets(tmp_path / "t.jsonl")),
        batch=4,
        tokens=16,
    )
    assert audit_stack(spec, tmp_path / "run", command=()).verdict == "coupled"


def test_the_example_in_isolation_md_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = re.search(r"<!-- run -->\n```python\n(.*?)```", ISOLATION, re.DOTALL)
    assert code is not None
    source = code[1]
    for word, path in (
        ("MODEL", tiny_folder(tmp_path / "model")),
        ("TICKETS", tickets(tmp_path / "t.jsonl")),
        ("RUN", tmp_path / "run"),
    ):
        source = source.replace(f'"{word}"', repr(str(path)))
    exec(compile(source, "isolation.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "coupled"
    assert printed[2] == "['record-owned']"

"""Folders: a free name for each run, and names that stay inside it."""

import os
from datetime import UTC, datetime

import pytest

from insular.errors import InvalidArgumentError
from insular.evidence import default_run_path
from insular.evidence.folders import checked_name

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_default_run_path_carries_stem_and_time_and_creates_nothing(tmp_path):
    path = default_run_path(tmp_path / "runs", "isolation", now=NOW)
    assert path == tmp_path / "runs" / "isolation-20260102-030405"
    assert os.listdir(tmp_path) == []


def test_default_run_path_numbers_runs_of_the_same_second(tmp_path):
    names = []
    for _ in range(3):
        path = default_run_path(tmp_path, "a", now=NOW)
        path.mkdir()
        names.append(path.name)
    assert names == ["a-20260102-030405", "a-20260102-030405-2", "a-20260102-030405-3"]


@pytest.mark.parametrize("name", ["a", "report.html", "run.toml", "0_a-b.c"])
def test_ordinary_names_pass(name):
    assert checked_name(name) == name


BAD = ["", ".", "..", "../a", "a/b", "a\\b", ".hidden", "-a", "a b", "a\n", "é", "a" * 101]


@pytest.mark.parametrize("name", [*BAD, "manifest.json", "Manifest.JSON"])
def test_names_that_leave_hide_or_replace_the_manifest_are_refused(name):
    with pytest.raises(InvalidArgumentError, match="name must be letters, digits, dot, dash"):
        checked_name(name)

"""The token table: states by hand, its cache, and the ranking against the slow formula."""

from pathlib import Path

import numpy as np
import pytest
import torch

from hidden.inversion.samples import random_records, split, table, trajectory
from insular.errors import EvidenceError, InvalidArgumentError
from insular.hidden.inversion.token_ranking import TokenRanking
from insular.hidden.inversion.token_table import (
    NEUTRAL_TOKENS,
    build_token_tables,
    table_key,
)
from insular.hidden.inversion.token_table_cache import (
    cached_token_tables,
    load_token_table,
    save_token_table,
    table_path,
)
from insular.hidden.matrices.covariance import DiagonalMatrix
from insular.records.tokens import TokenisedRecord
from models.families import VOCABULARY

CALIBRATION = random_records(20, 24, seed=9)


def test_every_token_has_the_state_of_a_plain_forward() -> None:
    found = table()
    neutral = CALIBRATION[0].tokens[:NEUTRAL_TOKENS]
    for token in (0, 17, VOCABULARY - 1):
        alone = TokenisedRecord(id="a", owner="a", tokens=(token, 5))
        after = TokenisedRecord(id="b", owner="b", tokens=(*neutral, token))
        assert torch.allclose(found.first[token], trajectory(alone)[0], atol=1e-5)
        assert torch.allclose(found.table[token], trajectory(after)[-1], atol=1e-5)


def test_residuals_are_those_of_the_calibration_text() -> None:
    rows = [
        trajectory(one)[position].double() - table().table[one.tokens[position]].double()
        for one in CALIBRATION
        for position in range(1, 24)
    ]
    assert torch.allclose(table().shift, torch.stack(rows).mean(0), atol=1e-5)
    spread = torch.stack(rows).var(0)
    assert torch.allclose(table().covariance.diagonal(), spread, rtol=1e-4, atol=1e-8)


def test_several_layers_in_one_pass_are_those_of_one_at_a_time() -> None:
    both = build_token_tables(split(), CALIBRATION, layers=[1, 0], model_digest="tiny")
    assert torch.equal(both[1].table, table(layer=1).table)
    assert torch.allclose(both[0].table, table(layer=0).table, atol=1e-6)


def test_the_ranking_is_the_mahalanobis_distance() -> None:
    variances = torch.linspace(0.01, 0.1, 32, dtype=torch.float64)
    ranking = TokenRanking(table(), added=DiagonalMatrix(variances=variances))
    states = trajectory(random_records(1, 6, seed=4)[0])
    inverse = torch.linalg.inv(table().covariance + torch.diag(variances))
    scores = ranking.later_positions(states)
    for position in range(6):
        apart = states[position].double() - table().table.double() - table().shift
        slow = -0.5 * ((apart @ inverse) * apart).sum(1)
        fast = scores[position].double()
        assert torch.allclose(fast - fast[0], slow - slow[0], atol=1e-3)


def test_influence_is_the_ridge_regression_of_residuals_on_the_token_before() -> None:
    found, pairs = table(), [(one, t) for one in CALIBRATION for t in range(1, 24)]
    rows = torch.stack([found.table[one.tokens[t - 1]].double() for one, t in pairs]).numpy()
    targets = torch.stack(
        [trajectory(one)[t].double() - found.table[one.tokens[t]].double() for one, t in pairs]
    ).numpy()
    rows, targets = rows - rows.mean(0), targets - targets.mean(0)
    # a ridge is least squares with rows that ask for no influence
    penalty = np.sqrt(0.02 * np.square(rows).sum() / 32) * np.eye(32)
    padded = np.vstack([targets, np.zeros((32, 32))])
    expected = np.linalg.lstsq(np.vstack([rows, penalty]), padded, rcond=None)[0]
    assert np.allclose(found.influence, expected, atol=1e-5)


def test_a_token_without_a_state_is_foretold_by_the_state_after_it() -> None:
    variances = torch.full((32,), 1e-4, dtype=torch.float64)
    ranking = TokenRanking(table(), added=DiagonalMatrix(variances=variances))
    inverse = torch.linalg.inv(table().uninfluenced + torch.diag(variances))
    record = random_records(1, 12, seed=4)[0]
    state, maybe = trajectory(record)[8], torch.tensor([record.tokens[8], 3])
    slow = torch.full((VOCABULARY,), -torch.inf, dtype=torch.float64)
    for here in maybe:
        residual = state.double() - table().shift - table().table[here].double()
        moved = (table().table.double() - table().centre) @ table().influence
        apart = residual - moved
        slow = torch.maximum(slow, -0.5 * ((apart @ inverse) * apart).sum(1))
    fast = ranking.token_before(state, maybe).double()
    assert torch.allclose(fast - fast.max(), slow - slow.max(), atol=1e-2)


def test_the_state_after_it_says_more_of_a_token_than_chance() -> None:
    ranking = TokenRanking(table())
    ranks = []
    for record in random_records(10, 12, seed=21):
        states = trajectory(record)
        for t in range(2, 12):
            scores = ranking.token_before(states[t], torch.tensor([record.tokens[t]]))
            ranks.append(int((scores > scores[record.tokens[t - 1]]).sum()) + 1)
    # by chance 32.5 on the mean of 100 ranks of 64, with a deviation of 1.85
    assert sum(ranks) / len(ranks) < 20


def test_a_correction_by_the_true_prefix_ranks_no_worse() -> None:
    record = random_records(1, 12, seed=4)[0]
    ranking = TokenRanking(table())
    state = trajectory(record)[8]
    prefix = record.tokens[:8]
    some = [3, 9, 20, 41]
    states = torch.stack(
        [
            trajectory(TokenisedRecord(id="a", owner="a", tokens=(*prefix, token)))[-1]
            for token in some
        ]
    )
    corrected = ranking.corrected(state, torch.tensor(some), states)
    assert int(corrected.argmax()) == record.tokens[8]


def test_the_cache_gives_the_same_table_and_a_damaged_file_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSULAR_CACHE", str(tmp_path))
    lines: list[str] = []

    def cached() -> torch.Tensor:
        found = cached_token_tables(
            split(), CALIBRATION, layers=[0, 1], model_digest="tiny", progress=lines.append
        )
        return found[0].table

    first = cached()
    assert torch.equal(first, cached())
    assert sum("once" in line for line in lines) == 1
    key = table_key(split(), layer=0, model_digest="tiny", calibration=CALIBRATION)
    path = table_path("tiny", layer=0, key=key)
    path.write_bytes(path.read_bytes()[:100])
    assert torch.equal(first, cached())
    assert [line.split(" once")[0] for line in lines if "once" in line] == [
        "building the token table of layers 0, 1",
        "building the token table of layer 0",  # the other one is whole
    ]
    assert not list(path.parent.glob(".*"))


def test_the_table_of_another_model_or_text_is_refused(tmp_path: Path) -> None:
    save_token_table(table(), tmp_path / "table.safetensors")
    with pytest.raises(EvidenceError, match="another model"):
        load_token_table(tmp_path / "table.safetensors", key="0" * 64)
    keys = {
        table_key(split(), layer=layer, model_digest=digest, calibration=text)
        for layer in (0, 1)
        for digest in ("tiny", "other")
        for text in (CALIBRATION, CALIBRATION[1:])
    }
    assert len(keys) == 8


def test_too_little_text_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="calibration_tokens"):
        build_token_tables(split(), CALIBRATION[:1], layers=[0], model_digest="tiny")

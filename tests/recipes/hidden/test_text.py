"""Prompts of a sweep: cut, told apart, and each given one role."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insular.errors import RecordError
from insular.recipes.hidden.spec import SweepSpec
from insular.recipes.hidden.text import Prompts, choose_prompts, read_text
from insular.records import Corpus, Record, TokenisedRecord


def corpus(*texts: str) -> Corpus:
    records = tuple(Record(id=f"c{i}", owner=f"c{i}", text=text) for i, text in enumerate(texts))
    return Corpus(name="c", unit="record", records=records)


def documents(*n_prompts: int) -> Corpus:
    """Documents of so many prompts of 6 tokens each, in records of up to 3 prompts."""
    records = []
    for document, n in enumerate(n_prompts):
        for place, start in enumerate(range(0, n, 3)):
            text = counting(7 * min(3, n - start), start=10_000 * document + 7 * start)
            records.append(Record(id=f"d{document}:{place}", owner=f"d{document}", text=text))
    return Corpus(name="c", unit="owner", records=tuple(records))


def owners(records: Sequence[TokenisedRecord]) -> set[str]:
    return {record.owner for record in records}


def encode(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def sizes(
    tokens: int, *, bank: int = 2, fit: int = 2, calibration: int = 2, queries: int = 2
) -> SweepSpec:
    return SweepSpec(
        tokens=tokens,
        bank=bank,
        fit=fit,
        calibration=calibration,
        queries=queries,
        evaluation=2,
        rank=1,
        top1=0.9,
    )


def counting(n: int, *, start: int = 0) -> str:
    return " ".join(str(i) for i in range(start, start + n))


def everything(prompts: Prompts) -> list[TokenisedRecord]:
    return [*prompts.bank, *prompts.fit, *prompts.calibration]


def test_no_two_prompts_have_the_same_tokens_so_no_role_sees_a_prompt_of_another() -> None:
    texts = [counting(7, start=10 * (i % 6)) for i in range(30)]  # every prompt five times
    texts += [f"{counting(6, start=10 * i)} 99" for i in range(6)]  # with another next token
    prompts = choose_prompts(corpus(*texts), encode, sizes(6))
    found = [record.tokens[:-1] for record in everything(prompts)]
    assert len(found) == len(set(found)) == 6
    with pytest.raises(RecordError, match="got 6"):
        choose_prompts(corpus(*texts), encode, sizes(6, bank=3))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=40), min_size=5, max_size=40),
    st.integers(4, 9),
)
def test_prompts_are_different_and_long_enough_whatever_the_text(
    rows: list[list[int]], tokens: int
) -> None:
    text = corpus(*(" ".join(map(str, row)) for row in rows))
    try:
        prompts = choose_prompts(text, encode, sizes(tokens))
    except RecordError:
        return
    found = [record.tokens[:-1] for record in everything(prompts)]
    assert len(set(found)) == len(found)
    assert all(max(4, tokens / 2) <= len(one) <= tokens for one in found)
    texts = [" ".join(map(str, row)) for row in rows]
    assert all(any(" ".join(map(str, one)) in text for text in texts) for one in found)


@pytest.mark.parametrize("n_tokens", [42, 43, 44, 60])
def test_prompts_do_not_overlap_and_each_has_at_least_half_of_tokens(n_tokens: int) -> None:
    texts = (counting(n_tokens, start=1000 * i) for i in range(3))
    prompts = choose_prompts(corpus(*texts), encode, sizes(6, bank=6, fit=6, calibration=6))
    used = [token for record in everything(prompts) for token in record.tokens]
    assert len(set(used)) == len(used)  # every token of the text is another number
    assert all(3 <= len(record.tokens) - 1 <= 6 for record in everything(prompts))


def test_half_of_an_odd_number_is_rounded_up() -> None:
    short = [counting(5, start=100 * i) for i in range(6)]  # prompts of 4 tokens
    with pytest.raises(RecordError, match="got 0"):
        choose_prompts(corpus(*short), encode, sizes(9))
    assert len(everything(choose_prompts(corpus(*short), encode, sizes(8)))) == 6


@settings(max_examples=100, deadline=None)
@given(
    n_prompts=st.lists(st.integers(1, 30), min_size=3, max_size=20),
    counts=st.tuples(*[st.integers(2, 20)] * 3),
    queries=st.integers(2, 20),
)
def test_no_document_that_shaped_or_scaled_a_release_is_attacked_or_evaluated_on(
    n_prompts: list[int], counts: tuple[int, int, int], queries: int
) -> None:
    bank, fit, calibration = counts
    queries = min(queries, bank)
    spec = sizes(6, bank=bank, fit=fit, calibration=calibration, queries=queries)
    try:
        prompts = choose_prompts(documents(*n_prompts), encode, spec)
    except RecordError:
        # enough of all three: one document a prompt of fit and calibration, and the rest
        assert sum(n_prompts) < sum(counts) or len(n_prompts) < fit + calibration + queries
        return
    assert [len(part) for part in (prompts.bank, prompts.fit, prompts.calibration)] == [*counts]
    shaped, scaled = owners(prompts.fit), owners(prompts.calibration)
    attacked = owners(prompts.bank[:queries])
    assert not shaped & scaled and not (shaped | scaled) & attacked
    assert len({record.id for record in everything(prompts)}) == sum(counts)


def test_other_candidates_come_from_documents_that_shaped_nothing_while_there_are_enough() -> None:
    text = documents(*[5] * 12)
    prompts = choose_prompts(text, encode, sizes(6, bank=40, fit=7, calibration=3))
    # 7 take two documents and 3 one: 9 whole ones are left
    assert not (owners(prompts.fit) | owners(prompts.calibration)) & owners(prompts.bank)
    more = choose_prompts(text, encode, sizes(6, bank=48, fit=7, calibration=3))
    used = owners(more.fit) | owners(more.calibration)
    assert [record.owner in used for record in more.bank] == [False] * 45 + [True] * 3


def test_a_text_is_used_to_its_last_prompt_where_its_documents_can_be_parted() -> None:
    for seed in range(20):
        spec = replace(sizes(6, bank=5, fit=4, calibration=2), seed=seed)
        prompts = choose_prompts(documents(5, 1, 1, 2, 2), encode, spec)
        assert owners(prompts.bank) == {"d0"}
        assert not owners(prompts.fit) & owners(prompts.calibration)


def test_too_few_documents_are_refused_without_their_text() -> None:
    for n_prompts in ((100,), (50, 50)):
        with pytest.raises(RecordError) as error:
            choose_prompts(documents(*n_prompts), encode, sizes(6))
        said = str(error.value)
        assert "c must hold enough documents" in said and f"got {len(n_prompts)} with up to" in said
        assert "--fit 2, --calibration 2 and --queries 2" in said and "give more documents" in said
        assert "0 1 2" not in said


def test_roles_do_not_depend_on_how_many_queries_there_are() -> None:
    for seed in range(
        20
    ):  # where the drawn order leaves too few for the bank, another one is taken
        few, many = (
            choose_prompts(
                documents(5, 1, 1, 2, 2),
                encode,
                replace(sizes(6, bank=5, fit=4, calibration=2, queries=queries), seed=seed),
            )
            for queries in (2, 5)
        )
        assert few == many


def test_each_role_has_prompts_of_several_documents_in_a_random_order() -> None:
    prompts = choose_prompts(
        documents(*[10] * 40), encode, sizes(6, bank=200, fit=100, calibration=10)
    )
    for part in (prompts.bank, prompts.fit):
        assert len(owners(part[:20])) > 5


def test_roles_follow_from_the_seed() -> None:
    text = corpus(*(counting(7, start=10 * i) for i in range(20)))
    spec = sizes(6)
    assert choose_prompts(text, encode, spec) == choose_prompts(text, encode, spec)
    other = SweepSpec(**{**vars(spec), "seed": 1})
    assert choose_prompts(text, encode, other).bank != choose_prompts(text, encode, spec).bank


def test_candidates_lack_the_token_that_follows() -> None:
    text = corpus(*(counting(7, start=10 * i) for i in range(6)))
    prompts = choose_prompts(text, encode, sizes(6))
    for record, candidate in zip(prompts.bank, prompts.candidates(), strict=True):
        assert candidate.id == record.id
        assert candidate.tokens == record.tokens[:-1] and len(candidate.tokens) == 6


def test_too_few_prompts_are_refused_without_their_text() -> None:
    with pytest.raises(RecordError) as error:
        choose_prompts(corpus(counting(7)), encode, sizes(6))
    said = str(error.value)
    assert "c must hold 6 different prompts of 6 tokens" in said and "got 1" in said
    assert "--bank 2, --fit 2, --calibration 2" in said and "0 1 2" not in said


def test_a_file_is_read_with_its_fields_and_named_by_its_digest(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    rows = (f'{{"n": "A{i}", "body": "{counting(7, start=10 * i)}"}}' for i in range(6))
    file.write_text("\n".join(rows), encoding="utf-8")
    spec = SweepSpec(**{**vars(sizes(6)), "text": str(file), "text_field": "body", "id_field": "n"})
    found = read_text(spec, progress=lambda line: None)
    assert found.records[0].id == "A0"
    fact = choose_prompts(found, encode, spec).fact
    assert fact.source == str(file) and fact.n_records == 6
    assert found.source is not None and fact.sha256 == found.source.sha256

"""The prompts of a run on hidden states, each in one role only."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from insular.errors import RecordError
from insular.evidence import InputFact
from insular.recipes.hidden_spec import SweepSpec
from insular.recipes.spec import PACKAGED_TEXTS
from insular.records import Corpus, TokenisedRecord, read_corpus, read_packaged, tokenise


@final
@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts by role; each record is a prompt and, last, the token that follows it."""

    bank: tuple[TokenisedRecord, ...]
    """Candidates; the first ones are queries, and the first of these are evaluated on."""
    fit: tuple[TokenisedRecord, ...]
    """What mechanisms are fitted on."""
    calibration: tuple[TokenisedRecord, ...]
    """What noise is scaled on."""
    fact: InputFact
    """Name and digest of the text, for the manifest."""

    def candidates(self) -> tuple[TokenisedRecord, ...]:
        """The bank without the tokens that follow.

        Returns:
            The prompts alone.
        """
        return tuple(replace(record, tokens=record.tokens[:-1]) for record in self.bank)


def read_text(spec: SweepSpec, *, progress: Callable[[str], None]) -> Corpus:
    """Read the text.

    Args:
        spec: Names it.
        progress: Called before a fetch.

    Returns:
        The corpus.
    """
    if spec.text in PACKAGED_TEXTS:
        return read_packaged(spec.text, progress=progress)
    return read_corpus(
        spec.text,
        text_field=spec.text_field,
        id_field=spec.id_field or None,
        owner_field=None,
        encoding=spec.encoding,
    )


def choose_prompts(
    corpus: Corpus, encode: Callable[[str], Sequence[int]], spec: SweepSpec
) -> Prompts:
    """Cut the text into prompts and give each a role.

    Guarantees:
        * No two prompts have the same tokens, so no role sees a prompt of another.
        * Prompts do not overlap, and each has at least half of ``tokens``, and 4.

    Args:
        corpus: The text.
        encode: Tokeniser.
        spec: Longest prompt, and how many of each role.

    Returns:
        The prompts.

    Raises:
        RecordError: If the text has too few.
    """
    cut = tokenise(corpus, encode, max_tokens=spec.tokens + 1, too_long="window")
    distinct = {
        record.tokens[:-1]: record
        for record in reversed(cut.records)
        if len(record.tokens) > max(4, (spec.tokens + 1) // 2)
    }
    found = list(reversed(distinct.values()))
    needed = spec.bank + spec.fit + spec.calibration
    if len(found) < needed:
        raise RecordError(
            f"{corpus.name} must hold {needed} different prompts of {spec.tokens} tokens (--bank "
            f"{spec.bank}, --fit {spec.fit}, --calibration {spec.calibration}), got {len(found)}; "
            "give more text, or ask for fewer."
        )
    order = np.random.default_rng(spec.seed).permutation(len(found))[:needed]
    chosen = [found[place] for place in order]
    return Prompts(
        bank=tuple(chosen[: spec.bank]),
        fit=tuple(chosen[spec.bank : spec.bank + spec.fit]),
        calibration=tuple(chosen[spec.bank + spec.fit :]),
        fact=InputFact(
            name="text",
            source=spec.text,
            sha256=corpus.source.sha256 if corpus.source else corpus.digest,
            n_records=corpus.n_records,
        ),
    )

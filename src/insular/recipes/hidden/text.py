"""The prompts of a run on hidden states, and the documents they come from, in one role each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, final

import numpy as np

from insular.errors import RecordError
from insular.evidence import InputFact
from insular.recipes.audit.spec import PACKAGED_TEXTS
from insular.recipes.hidden.spec import SweepSpec
from insular.records import Corpus, TokenisedRecord, read_corpus, read_packaged, tokenise

if TYPE_CHECKING:
    from insular.recipes.hidden.inversion.spec import HiddenInversionSpec


@final
@dataclass(frozen=True, kw_only=True)
class Prompts:
    """Prompts by role; each record is a prompt and, last, the token that follows it."""

    bank: tuple[TokenisedRecord, ...]
    """Candidates; the first ones are queries, and the first of these are evaluated on."""
    fit: tuple[TokenisedRecord, ...]
    """What mechanisms are fitted on; from documents of their own."""
    calibration: tuple[TokenisedRecord, ...]
    """What noise is scaled on; from documents of their own."""
    fact: InputFact
    """Name and digest of the text, for the manifest."""

    def candidates(self) -> tuple[TokenisedRecord, ...]:
        """The bank without the tokens that follow.

        Returns:
            The prompts alone.
        """
        return tuple(replace(record, tokens=record.tokens[:-1]) for record in self.bank)


def read_text(
    spec: "SweepSpec | HiddenInversionSpec", *, progress: Callable[[str], None] | None = None
) -> Corpus:
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
    """Cut the text into prompts, and give each document to a role.

    A document is what has one owner in the text: an article, the lines of one speaker, or one row
    of a file.

    Guarantees:
        * No two prompts have the same tokens, so no role sees a prompt of another.
        * Prompts to fit on, prompts to scale on and queries come from three sets of documents: no
          document that shaped or scaled a release is attacked or evaluated on.
        * Candidates that are no queries come from other documents than the first two too, while
          the text has enough of them.
        * Prompts do not overlap, and each has at least half of ``tokens``, and 4.
        * Roles do not depend on how many queries there are.

    Args:
        corpus: The text.
        encode: Tokeniser.
        spec: Longest prompt, and how many of each role.

    Returns:
        The prompts.

    Raises:
        RecordError: If the text has too few prompts or documents.
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
    roles = _by_document(corpus.name, found, spec)
    return Prompts(
        bank=tuple(roles["bank"]),
        fit=tuple(roles["fit"]),
        calibration=tuple(roles["calibration"]),
        fact=InputFact(
            name="text",
            source=spec.text,
            sha256=corpus.source_digest,
            n_records=corpus.n_records,
        ),
    )


def _by_document(
    name: str, found: Sequence[TokenisedRecord], spec: SweepSpec
) -> dict[str, list[TokenisedRecord]]:
    """Prompts by role, shuffled, so that no role follows the order of the text."""
    rng = np.random.default_rng(spec.seed)
    documents: dict[str, list[TokenisedRecord]] = {}
    for place in rng.permutation(len(found)):
        documents.setdefault(found[place].owner, []).append(found[place])
    wanted = {"fit": spec.fit, "calibration": spec.calibration}
    drawn = [list(documents)[place] for place in rng.permutation(len(documents))]
    given, rest = _parted(drawn, documents, wanted)
    if len(rest) < spec.bank:  # where documents are few, the largest first may leave more
        other = _parted(sorted(drawn, key=lambda one: -len(documents[one])), documents, wanted)
        given, rest = max((given, rest), other, key=lambda one: (all(one[0].values()), len(one[1])))
    if len(rest) < spec.queries or not all(given.values()):
        raise RecordError(
            f"{name} must hold enough documents for each to have one of three roles (--fit "
            f"{spec.fit}, --calibration {spec.calibration} and --queries {spec.queries} prompts), "
            f"got {len(documents)} with up to {max(map(len, documents.values()))} prompts; give "
            "more documents, or ask for fewer prompts."
        )
    roles = {"bank": _shuffled(rest, rng)}
    spare = []
    for role, part in given.items():
        records = _shuffled([record for one in part for record in documents[one]], rng)
        roles[role], spare = records[: wanted[role]], [*spare, *records[wanted[role] :]]
    # last, so that they are never queries: what is left of documents that have a role
    roles["bank"] = [*roles["bank"], *spare][: spec.bank]
    return roles


def _parted(
    order: Sequence[str],
    documents: Mapping[str, Sequence[TokenisedRecord]],
    wanted: Mapping[str, int],
) -> tuple[dict[str, list[str]], list[TokenisedRecord]]:
    """Documents for each role, and the prompts of the rest; a role that lacks some has none."""
    given: dict[str, list[str]] = {role: [] for role in wanted}
    missing, left = dict(wanted), []
    for one in order:  # whole documents first, then for each role the smallest that fills it
        role = max(missing, key=missing.__getitem__)
        if len(documents[one]) > missing[role]:
            left.append(one)
        else:
            given[role].append(one)
            missing[role] -= len(documents[one])
    smallest = sorted(left, key=lambda one: len(documents[one]))
    for role in given:
        if missing[role] and smallest:  # each has more than any role misses
            given[role].append(smallest.pop(0))
        elif missing[role]:
            given[role] = []
    taken = {one for part in given.values() for one in part}
    rest = [record for one in order if one not in taken for record in documents[one]]
    return given, rest


def _shuffled(
    records: Sequence[TokenisedRecord], rng: np.random.Generator
) -> list[TokenisedRecord]:
    """The records in a random order."""
    return [records[place] for place in rng.permutation(len(records))]

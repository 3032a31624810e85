"""What a membership attack reads, and why it may refuse it: ids, owners, copies, shift."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from insular.audit.membership.duplicates import (
    SHINGLE_WORDS,
    near_duplicates,
    plain_text,
    repeated_texts,
)
from insular.audit.membership.results import Counts, Overlap, Shift
from insular.audit.membership.shift import distribution_shift
from insular.errors import InsularError, RecordError
from insular.evidence import InputFact
from insular.recipes.attack.attacked_model import AttackedModel
from insular.recipes.attack.membership.spec import MembershipSpec
from insular.recipes.inputs import Progress
from insular.recipes.text import check_context
from insular.recipes.train.data import read_training_corpus
from insular.records import Corpus, Record, TokenisedCorpus, TokenisedRecord, read_corpus, tokenise

USUAL_TOKENS = 512
"""Longest beginning of a record where neither run nor user says."""


@final
@dataclass(frozen=True, kw_only=True)
class Side:
    """The records of one file."""

    texts: tuple[Record, ...]
    """Those that are scored, in an order that has nothing to do with the file's."""
    tokens: tuple[TokenisedRecord, ...]
    """The same, tokenised."""
    zlib_bytes: tuple[int, ...]
    """Length after zlib of what is scored of each."""
    counts: Counts
    """How many there are."""


@final
@dataclass(frozen=True, kw_only=True)
class AttackInputs:
    """Everything that an attack reads, checked."""

    members: Side
    """Records that were learnt from."""
    non_members: Side
    """Records that were not."""
    by_owner: bool
    """Whether scores are averaged over owners."""
    found_in_training: int | None
    """Members in the training text; None where it is not at hand."""
    overlap: Overlap
    """Non-members that were copies."""
    shift: Shift
    """What tells the files apart without a model."""
    facts: tuple[InputFact, ...]
    """Names and digests."""


def prepare_attack(
    spec: MembershipSpec, attacked: AttackedModel, *, progress: Progress
) -> AttackInputs:
    """Read both files and check that an attack on them can mean something.

    Guarantees:
        * The order of the records in their files changes nothing.
        * An id, or an owner, that is in both files is an error.
        * A non-member that is a copy of a member, or of a record of the run's training text where
          that is at hand, is an error, or left out and counted.

    Args:
        spec: Names files and settings.
        attacked: The model, whose tokeniser and training text are used.
        progress: Called with a line before long steps.

    Returns:
        The records.

    Raises:
        RecordError: If a file cannot be read or the two are not apart.
    """
    tokens = _longest(spec, attacked)
    progress("", f"reading {spec.members} and {spec.non_members}")
    corpora = [_read(spec, path, attacked) for path in (spec.members, spec.non_members)]
    _check_apart(*corpora)
    members, others = (_ordered(corpus, spec.seed) for corpus in corpora)
    training = _training_text(attacked)
    found, seen = _seen(members, training, spec)
    progress("", "looking for copies among the non-members")
    overlap = Overlap(
        threshold=spec.similarity,
        shingle_words=SHINGLE_WORDS,
        n_compared=len(seen),
        found=near_duplicates(seen, others, threshold=spec.similarity),
    )
    kept = _without_copies(others, overlap, spec)
    sides = [
        _side(corpus, records, attacked, tokens=tokens)
        for corpus, records in zip(corpora, (members, kept), strict=True)
    ]
    progress("", "looking for a difference without the model")
    shift = distribution_shift(sides[0].texts, sides[1].texts, significance=spec.significance)
    return AttackInputs(
        members=sides[0],
        non_members=sides[1],
        by_owner=corpora[0].unit == "owner",
        found_in_training=found,
        overlap=overlap,
        shift=shift,
        facts=tuple(
            InputFact(
                name=name,
                source=path,
                sha256=corpus.source_digest,
                n_records=corpus.n_records,
            )
            for name, path, corpus in zip(
                ("members", "non-members"), (spec.members, spec.non_members), corpora, strict=True
            )
        ),
    )


def _longest(spec: MembershipSpec, attacked: AttackedModel) -> int:
    """Tokens of a record that are scored."""
    context = attacked.decoder.context_tokens
    trained = attacked.run[0].tokens if attacked.run else 0
    tokens = spec.tokens or trained or min(USUAL_TOKENS, context, spec.physical_tokens)
    check_context(tokens, context_tokens=context)
    return tokens


def _read(spec: MembershipSpec, path: str, attacked: AttackedModel) -> Corpus:
    """One file, with the owners that the promise is about."""
    promised = attacked.claim.owner_field if attacked.claim else ""
    return read_corpus(
        path,
        text_field=spec.text_field,
        id_field=spec.id_field or None,
        owner_field=spec.unit or promised or None,
        encoding=spec.encoding,
    )


def _check_apart(members: Corpus, others: Corpus) -> None:
    """Refuse ids or owners that are on both sides."""
    for what, values in (
        ("record id", [{r.id for r in corpus.records} for corpus in (members, others)]),
        ("owner", [{r.owner for r in corpus.records} for corpus in (members, others)]),
    ):
        both = sorted(values[0] & values[1])
        if both:
            shown = f"{', '.join(both[:5])}{' ...' if len(both) > 5 else ''}"
            raise RecordError(
                f"no {what} may be among members and non-members, got {len(both)} in both files:"
                f" {shown}; take them out of one."
            )


def _ordered(corpus: Corpus, seed: int) -> list[Record]:
    """The records by a hash of their id: half of them will choose thresholds."""
    return sorted(corpus.records, key=lambda record: order_key(record.id, seed))


def order_key(name: str, seed: int) -> bytes:
    """Where a record or an owner stands, whatever file it comes from.

    Args:
        name: Its id.
        seed: Of the attack.

    Returns:
        Bytes to sort by.
    """
    return hashlib.sha256(f"membership {seed} {name}".encode()).digest()


def _training_text(attacked: AttackedModel) -> Corpus | None:
    """What the run learnt from, if its file is still there and the same."""
    if attacked.run is None:
        return None
    spec, trained = attacked.run
    try:
        corpus = read_training_corpus(spec)
    except InsularError:
        return None
    return corpus if corpus.digest == trained.data.sha256 else None


def _seen(
    members: Sequence[Record], training: Corpus | None, spec: MembershipSpec
) -> tuple[int | None, list[Record]]:
    """How many members were learnt from, and all that is known to have been."""
    if training is None:
        return None, list(members)
    learnt = {plain_text(record.text): record for record in training.records}
    known = [plain_text(record.text) for record in members]
    found = sum(text in learnt for text in known)
    if not found:
        raise RecordError(
            f"members must be records that the run learnt from, got {spec.members}, of which none"
            " stands in its training text; are the two files swapped?"
        )
    rest = set(learnt) - set(known)
    return found, [*members, *(record for text, record in learnt.items() if text in rest)]


def _without_copies(
    others: Sequence[Record], overlap: Overlap, spec: MembershipSpec
) -> list[Record]:
    """The non-members that are none of the others' copies."""
    copies = {one.non_member for one in overlap.found}
    if copies and spec.overlap == "refuse":
        shown = ", ".join(f"{one.non_member} ({one.seen})" for one in overlap.found[:3])
        raise RecordError(
            f"non_members must not repeat what was learnt from, got {len(copies)} of"
            f" {len(others)} records at similarity {spec.similarity:g} or more: {shown}"
            f"{' ...' if len(copies) > 3 else ''}; take them out, or use --overlap drop."
        )
    kept = [record for record in others if record.id not in copies]
    if not kept:
        raise RecordError(
            f"non_members must hold records that were not learnt from, got {len(copies)} copies"
            " and nothing else; give other records."
        )
    return kept


def _side(
    corpus: Corpus, records: Sequence[Record], attacked: AttackedModel, *, tokens: int
) -> Side:
    """The records of one file that have a loss."""
    part = replace(corpus, records=tuple(records))
    made = tokenise(part, attacked.decoder.encode, max_tokens=tokens, too_long="truncate")
    texts = {record.id: record for record in records}
    scored = tuple(texts[record.id] for record in made.records)
    return Side(
        texts=scored,
        tokens=made.records,
        zlib_bytes=tuple(
            len(zlib.compress(_scored_text(text, record, attacked).encode()))
            for text, record in zip(scored, made.records, strict=True)
        ),
        counts=_counts(corpus, made, scored),
    )


def _scored_text(text: Record, record: TokenisedRecord, attacked: AttackedModel) -> str:
    """The beginning of a text that is scored."""
    if not record.lost_tokens:
        return text.text
    return attacked.decoder.tokenizer.decode(list(record.tokens), skip_special_tokens=True)


def _counts(corpus: Corpus, made: TokenisedCorpus, scored: Sequence[Record]) -> Counts:
    """How many records there are, and what became of them."""
    return Counts(
        read=corpus.n_records,
        too_short=len(made.too_short_ids),
        truncated=len(made.truncated_ids),
        repeated=repeated_texts(scored),
        scored=len(scored),
        units=len({record.owner for record in scored}),
    )

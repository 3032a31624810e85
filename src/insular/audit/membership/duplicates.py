"""Records that stand in two files, exactly or nearly: word shingles in an inverted index."""

import hashlib
import re
import unicodedata
from collections.abc import Sequence

import numpy as np
from scipy import sparse

from insular import _check
from insular.audit.membership.results import NearDuplicate
from insular.records.corpus import Record

SHINGLE_WORDS = 5
"""Words of a shingle."""
_CHUNK = 256
_WORD = re.compile(r"\w+|[^\w\s]")

Array = np.ndarray


def near_duplicates(
    seen: Sequence[Record],
    others: Sequence[Record],
    *,
    threshold: float,
    shingle_words: int = SHINGLE_WORDS,
) -> tuple[NearDuplicate, ...]:
    r"""The records of one file that another one has too, or nearly.

    Similarity is Jaccard's :math:`|A \cap B| / |A \cup B|` of the sets of word shingles, after
    Unicode folding, lower case and single spaces; a shorter text is one shingle. It is exact up to
    64-bit hashes: every pair with a shingle in common is compared.

    Guarantees:
        * The same text up to case and white space has similarity 1.
        * The order of the records does not matter, but for which of two equal matches is named.

    Args:
        seen: Records that were learnt from.
        others: Records that should be different.
        threshold: Least similarity that counts, above 0.
        shingle_words: Words of a shingle.

    Returns:
        For each such record of ``others``, its most similar one, in the order of ``others``.

    Source:
        Broder (1997), On the resemblance and containment of documents.
    """
    _check.probability(threshold=threshold)
    _check.positive_finite(threshold=threshold)
    _check.at_least(1, shingle_words=shingle_words)
    if not seen or not others:
        return ()
    left = [_shingles(record.text, shingle_words) for record in seen]
    right = [_shingles(record.text, shingle_words) for record in others]
    index, sizes = np.unique(np.concatenate([*left, *right])), np.array([len(s) for s in left])
    postings = _matrix(left, index).T.tocsr()
    found = []
    for start in range(0, len(right), _CHUNK):
        part = right[start : start + _CHUNK]
        shared = (_matrix(part, index) @ postings).tocsr()
        for row, mine in enumerate(part):
            span = slice(shared.indptr[row], shared.indptr[row + 1])
            at, common = shared.indices[span], shared.data[span]
            if not len(at):
                continue
            similarity = common / (len(mine) + sizes[at] - common)
            best = int(np.lexsort((at, -similarity))[0])
            if similarity[best] >= threshold:
                found.append(
                    NearDuplicate(
                        non_member=others[start + row].id,
                        seen=seen[int(at[best])].id,
                        similarity=float(similarity[best]),
                    )
                )
    return tuple(found)


def plain_text(text: str) -> str:
    """A text without what people do not count as a difference: case, width, white space.

    Args:
        text: Any text.

    Returns:
        It, folded.
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def repeated_texts(records: Sequence[Record]) -> int:
    """Records whose text an earlier one has too, up to case and white space.

    Args:
        records: The records.

    Returns:
        How many.
    """
    return len(records) - len({plain_text(record.text) for record in records})


def _shingles(text: str, size: int) -> Array:
    """Sorted 64-bit hashes of a text's shingles."""
    words = _WORD.findall(plain_text(text)) or [text]
    count = max(1, len(words) - size + 1)
    joined = ("\0".join(words[i : i + size]) for i in range(count))
    hashes = [hashlib.blake2b(part.encode(), digest_size=8).digest() for part in joined]
    return np.unique(np.frombuffer(b"".join(hashes), dtype=np.uint64))


def _matrix(sets: Sequence[Array], index: Array) -> sparse.csr_matrix:
    """Which shingle of the index each text has."""
    columns = np.searchsorted(index, np.concatenate(sets))
    starts = np.concatenate([[0], np.cumsum([len(one) for one in sets])])
    ones = np.ones(len(columns), dtype=np.int32)
    return sparse.csr_matrix((ones, columns, starts), shape=(len(sets), len(index)))

"""Whether members can be told from non-members by their texts alone: no model is asked.

Where they can, an attack on a model may have found nothing but that difference.
"""

import hashlib
import re
import zlib
from collections.abc import Sequence

import numpy as np
from scipy import optimize, sparse
from scipy.special import expit, log1p

from insular import _check
from insular.audit.membership.duplicates import plain_text
from insular.audit.membership.rates import LEAST, area_under_curve
from insular.audit.membership.results import Shift
from insular.errors import InvalidArgumentError
from insular.records.corpus import Record

FOLDS = 5
"""Parts in turn left out."""
MOST = 2000
"""Most records of each file that are looked at, chosen by a hash of their ids."""
FEATURES = "words, 3 to 5 characters in a row, lengths"
"""What the classifier sees of a text."""
_BITS = 16
_STRENGTH = 10.0  # inverse of the ridge, with rows of length 1
_WORD = re.compile(r"\w+")

Array = np.ndarray


def distribution_shift(
    members: Sequence[Record],
    non_members: Sequence[Record],
    *,
    folds: int = FOLDS,
    significance: float = 0.05,
) -> Shift:
    """Fit a classifier to texts, and score those that it was not fitted to.

    Logistic regression on hashed counts, weighted by rarity, of words and of runs of 3 to 5 bytes,
    and on lengths. Equal texts are left out together, so that none is learnt by heart.

    Guarantees:
        * No text is scored by a classifier that saw it.
        * The order of the records does not matter.

    Args:
        members: Records that were learnt from.
        non_members: Records that were not.
        folds: Parts in turn left out.
        significance: Error probability of the interval.

    Returns:
        The area under its curve.

    Raises:
        InvalidArgumentError: If there are too few records.

    Source:
        Das, Zhang and Tramer (2024), Blind baselines beat membership inference attacks for
        foundation models; Meeus et al. (2024).
    """
    _check.at_least(2, folds=folds)
    for name, records in (("members", members), ("non_members", non_members)):
        if len(records) < LEAST:
            raise InvalidArgumentError(
                f"{name} must hold at least {LEAST} records, got {len(records)}."
            )
    members, non_members = _ordered(members)[:MOST], _ordered(non_members)[:MOST]
    records = [*members, *non_members]
    labels = np.repeat([1.0, 0.0], [len(members), len(non_members)])
    texts = [plain_text(record.text) for record in records]
    parts = np.concatenate(
        [_parts(texts[: len(members)], folds), _parts(texts[len(members) :], folds)]
    )
    counts, lengths = _shared(_counts(texts)), _lengths(texts)
    scores = np.zeros(len(records))
    for part in range(folds):
        out = parts == part
        if not out.any():
            continue
        rarity = _rarity(counts[~out])
        mean, spread = lengths[~out].mean(0), lengths[~out].std(0) + 1e-12
        rows = sparse.hstack(
            [_weighted(counts, rarity), sparse.csr_matrix(0.3 * (lengths - mean) / spread)]
        ).tocsr()
        weights, bias = _fit(rows[~out], labels[~out])
        scores[out] = rows[out] @ weights + bias
    area = area_under_curve(scores[labels == 1], scores[labels == 0], significance=significance)
    return Shift(auc=area, folds=folds, features=FEATURES)


def _ordered(records: Sequence[Record]) -> list[Record]:
    """Records in an order of their own, whatever order the file has."""
    return sorted(records, key=lambda record: hashlib.sha256(record.id.encode()).digest())


def _parts(texts: Sequence[str], folds: int) -> Array:
    """The part of each text, as many of each as there can be; equal texts share theirs."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(text, len(known)) % folds for text in texts])


def _counts(texts: Sequence[str]) -> sparse.csr_matrix:
    """How often each text has each hashed word and run of bytes, damped by a logarithm."""
    columns, values, starts = [], [], [0]
    for text in texts:
        words = [zlib.crc32(word.encode()) for word in _WORD.findall(text)]
        keys = np.concatenate([np.array(words, dtype=np.uint64), *_runs(text)])
        mixed = (keys * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - _BITS)
        found, counts = np.unique(mixed.astype(np.int64), return_counts=True)
        columns.append(found)
        values.append(1 + np.log(counts))
        starts.append(starts[-1] + len(found))
    return sparse.csr_matrix(
        (np.concatenate(values), np.concatenate(columns), starts), shape=(len(texts), 1 << _BITS)
    )


def _shared(counts: sparse.csr_matrix) -> sparse.csr_matrix:
    """The columns that more than one text has: no other can help with a text left out."""
    have = np.bincount(counts.indices, minlength=1 << _BITS)
    return counts[:, np.flatnonzero(have > 1)]


def _runs(text: str) -> list[Array]:
    """Keys of all runs of 3 to 5 bytes, of different length never equal."""
    data = np.frombuffer(f" {text} ".encode(), dtype=np.uint8).astype(np.uint64)
    found = []
    for size in (3, 4, 5):
        if len(data) < size:
            break
        key = np.full(len(data) - size + 1, size, dtype=np.uint64)
        for offset in range(size):
            key = key * np.uint64(256) + data[offset : len(data) - size + 1 + offset]
        found.append(key + (np.uint64(1) << np.uint64(40)))
    return found


def _lengths(texts: Sequence[str]) -> Array:
    """Length in characters and in words, and the share of digits."""
    rows = [
        (
            log1p(len(text)),
            log1p(len(text.split())),
            sum(c.isdigit() for c in text) / (len(text) + 1),
        )
        for text in texts
    ]
    return np.array(rows)


def _rarity(counts: sparse.csr_matrix) -> Array:
    """Weight of each column: larger where fewer texts have it."""
    have = np.asarray(counts.astype(bool).sum(axis=0)).ravel()
    return np.log(len(counts.indptr) / (1 + have)) + 1


def _weighted(counts: sparse.csr_matrix, rarity: Array) -> sparse.csr_matrix:
    """Counts times rarity, each row of length 1."""
    rows = counts.copy()
    rows.data = rows.data * rarity[rows.indices]
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1))).ravel()
    rows.data /= np.repeat(np.maximum(norms, 1e-12), np.diff(rows.indptr))
    return rows


def _fit(rows: sparse.csr_matrix, labels: Array) -> tuple[Array, float]:
    """Weights and bias of a ridge logistic regression in which both classes weigh the same."""
    signs = 2 * labels - 1
    shares = np.where(labels == 1, 0.5 / max(labels.sum(), 1), 0.5 / max((1 - labels).sum(), 1))
    shares = shares * len(labels)

    def loss(point: Array) -> tuple[float, Array]:
        weights, bias = point[:-1], point[-1]
        margins = signs * (rows @ weights + bias)
        slope = -signs * shares * expit(-margins)
        value = shares @ np.logaddexp(0, -margins) + weights @ weights / (2 * _STRENGTH)
        return float(value), np.append(rows.T @ slope + weights / _STRENGTH, slope.sum())

    start = np.zeros(len(rows.T @ signs) + 1)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    return found[:-1], float(found[-1])

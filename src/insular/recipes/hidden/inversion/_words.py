"""What an inversion found, in sentences that terminal and page share."""

import statistics
from collections.abc import Sequence

from insular.hidden.inversion.results import InversionCell, InversionResult
from insular.hidden.utility.intervals import MeanInterval
from insular.recipes._numbers import amount, counted, percent
from insular.recipes.hidden.inversion.spec import HiddenInversionSpec
from insular.recipes.hidden.sweep._words import STATUS
from insular.reports import VerdictKind

KINDS: dict[int, VerdictKind] = {0: "good", 1: "bad", 2: "open"}
METHOD = (
    "The attacker knows the model, the mechanism and the storage, and has the states of every kept"
    " position of one layer. Of the prompts it knows nothing.",
    "At each position all tokens are ranked by their state after a neutral prefix and the spread of"
    " its residuals over public text; the first few are run through the blocks up to the layer.",
    "A token is accepted if its state fits and no other hypothesis is within the margin; where"
    " nothing fits, more tokens are tried and earlier choices are opened again.",
    "Positions at which nothing fitted are doubtful, never accepted.",
    "An attack that fails proves no privacy: one that searches longer, or has a better language"
    " model, may succeed.",
)


def verdict_words(result: InversionResult) -> str:
    """The verdict in a few words."""
    if len(result.cells) == 1 and result.attacked:
        return _read_words(result.cells[0])
    read = sum(cell.n_read > 0 for cell in result.attacked)
    if read:
        return f"Prompts read in {read} of {counted(len(result.attacked), 'cell')}"
    if not result.attacked:
        return "Nothing was attacked"
    if result.exit_code == 0:
        return f"No prompt was read in any of {counted(len(result.attacked), 'cell')}"
    return "No prompt was read without doubt"


def answer_sentences(result: InversionResult) -> tuple[str, ...]:
    """What was read in the worst cell, what protects, and how sure that is."""
    found = []
    if result.worst is not None:
        found += _cell_sentences(result, result.worst)
    if len(result.attacked) > 1:
        found += _mechanism_sentences(result)
    if result.silent_errors:
        found.append(
            f"{counted(result.silent_errors, 'wrong token')} looked right: accepted, but not true."
        )
    elif result.silent_errors == 0:
        found.append("No wrong token was accepted.")
    missing = missing_sentences(result)
    if missing and result.attacked:
        found.append(f"{counted(len(missing), 'release')} could not be made.")
    elif missing:
        found += missing
    return (*found, *result.notes)


def missing_sentences(result: InversionResult) -> tuple[str, ...]:
    """Why each release was not made that could not be."""
    return tuple(
        dict.fromkeys(
            f"{cell.mechanism} at layer {cell.layer}: "
            + (f"not fitted: {cell.reason}" if cell.reason else f"{STATUS[cell.status]}.")
            for cell in result.cells
            if not cell.prompts and cell.status in STATUS
        )
    )


def release_words(cell: InversionCell) -> str:
    """What the states went through."""
    if cell.status == "clean":
        return "clean"
    if cell.kl is not None:
        return f"released by {cell.mechanism} at a measured KL of {amount(cell.kl.mean)} nats"
    return f"released by {cell.mechanism} at {amount(cell.budget_nats)} nats to first order"


def place_words(cell: InversionCell) -> str:
    """Which cell, in a few words."""
    name = "clean" if cell.status == "clean" else cell.mechanism
    return f"layer {cell.layer}, {name}, {cell.storage}"


def input_notes(spec: HiddenInversionSpec, lengths: Sequence[int]) -> tuple[str, ...]:
    """What a reader must know of the prompts and of the mechanisms."""
    short, long = min(lengths), max(lengths)
    size = counted(long, "token") if short == long else (
        f"{short} to {long} tokens, {statistics.median(lengths):g} at the median"
    )  # fmt: skip
    found = [f"{counted(len(lengths), 'prompt')} of {size}."]
    if spec.every > 1:
        found.append(
            "A prompt counts as read if its tokens up to the last kept state are right: what comes"
            " after it has left no trace."
        )
    if spec.special:
        found.append("The tokenizer's start and end tokens stand around each and count as tokens.")
    if (spec.fits or spec.release) and not spec.states:
        found.append(
            "A mechanism is scaled at the last token of a prompt and applied to every position."
        )
    return tuple(found)


def interval_words(interval: MeanInterval) -> str:
    """A share with its interval."""
    level = 100 * (1 - interval.significance)
    return (
        f"{percent(interval.mean)} ({level:.0f}% interval {percent(interval.low)} to"
        f" {percent(interval.high)}, {counted(interval.n, 'prompt')})"
    )


def _read_words(cell: InversionCell) -> str:
    """How many prompts of a cell were read."""
    of = f"of {counted(len(cell.prompts), 'prompt')}"
    if cell.n_exact is None:
        if cell.n_certain:
            return f"{cell.n_certain} {of} read, none in doubt"
        return "No prompt was read without doubt"
    return f"{cell.n_exact} {of} read exactly" if cell.n_read else "No prompt was read exactly"


def _cell_sentences(result: InversionResult, cell: InversionCell) -> list[str]:
    """What was read in one cell."""
    kept = "" if cell.every == 1 else f", positions 0, {cell.every}, {2 * cell.every}, ..."
    several = len(result.attacked) > 1
    start = f"Of {len(result.attacked)} cells, most was read from s" if several else "S"
    found = [
        f"{start}tates of layer {cell.layer} of {result.model}, {release_words(cell)}, kept in"
        f" {cell.storage}{kept}: {_read_words(cell)}."
    ]
    if cell.exact_match is not None and cell.token_accuracy is not None:
        found.append(
            f"Exact match {interval_words(cell.exact_match)}; tokens right"
            f" {interval_words(cell.token_accuracy)}."
        )
    if cell.ranked_first is not None:
        found.append(
            f"The true token stood first in the ranking at {percent(cell.ranked_first)} of the"
            f" kept positions; {cell.candidates_per_token:.1f} tokens were tried at a position,"
            f" {cell.seconds_per_token:.3f} s a token."
        )
    return found


def _mechanism_sentences(result: InversionResult) -> list[str]:
    """Behind which releases prompts were read, over all layers and storages."""
    cells: dict[str, list[InversionCell]] = {}
    for cell in result.attacked:
        cells.setdefault("" if cell.status == "clean" else cell.mechanism, []).append(cell)
    scaled = any(one.kl is not None for one in result.attacked)
    at = f" at a measured KL of {result.target_kl_nats:g} nats" if scaled else ""
    found = []
    if "" in cells:
        found.append(f"Clean states: {_range(cells.pop(''))}.")
    read: dict[str, list[str]] = {}
    for name, some in cells.items():
        if any(one.n_read for one in some):
            read.setdefault(_range(some), []).append(name)
    if read:
        words = "; ".join(f"{share} with {', '.join(names)}" for share, names in read.items())
        found.append(f"Read behind a mechanism{at}: {words}.")
    kept = [name for name, some in cells.items() if not any(one.n_read for one in some)]
    if kept:
        right = [c.tokens_right for name in kept for c in cells[name] if c.tokens_right is not None]
        most = max(right, default=0.0)
        tokens = f", though up to {percent(most)} of the tokens are right" if most else ""
        found.append(f"No prompt was read behind {', '.join(kept)}{at}{tokens}.")
    return found


def _range(cells: Sequence[InversionCell]) -> str:
    """Least and largest share of prompts read in some cells."""
    shares = [cell.read_share for cell in cells]
    ends = dict.fromkeys((percent(min(shares)), percent(max(shares))))
    return f"{' to '.join(ends)} of prompts"

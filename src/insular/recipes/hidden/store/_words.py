"""What indexes of released states lose and tell, in sentences that terminal and page share."""

from insular.hidden.store.results import StoreResult
from insular.hidden.utility.intervals import MeanInterval
from insular.recipes._numbers import counted, percent, short
from insular.recipes.hidden.store.results import HiddenStoreResult, StoreCell
from insular.recipes.hidden.sweep._words import STATUS
from insular.reports import VerdictKind

METHOD = (
    "Each query is a clean state; its own row is not counted among its neighbours. A row is found"
    " if it is as near, clean, as one of the clean index's neighbours: a copy of one is one.",
    "The attacker has the index, knows the mechanism, the storage format and the clean state of"
    " every row, and says whose the queries' kept rows are. The best of the attackers counts.",
    "Plain: distances to clean states. Aware: what mechanism and storage make of each candidate;"
    " with noise, distances in units of noise and rounding. Cells: which noise would have moved a"
    " candidate into the stored cells, number by number.",
    "Copies of one prompt are one candidate. Where several prompts are exactly as near, one is"
    " named at random, and its chance is what counts.",
    "The KL of a mechanism is measured at the last token of other prompts, before states are"
    " rounded for storage. All formats keep the same noise.",
    "An attack that fails proves no privacy: one that learned to read states may succeed.",
)


def verdict_of(result: HiddenStoreResult) -> tuple[str, VerdictKind]:
    """The verdict in a few words, and what it means."""
    n, telling = len(result.measured), len(result.telling)
    if not n:
        return "No index was measured", "open"
    if telling == n:
        words = "The index tells" if n == 1 else "Every index tells"
        return f"{words} whose its rows are", "bad"
    if not telling:
        return "No row is told better than by guessing", "good"
    return f"{telling} of {n} indexes tell whose their rows are", "bad"


def answer_sentences(result: HiddenStoreResult) -> tuple[str, ...]:
    """What is in the indexes, what clean ones tell, what released ones lose and tell."""
    found: list[str] = []
    if result.measured:
        _, first = result.measured[0]
        of = f"of {result.model} on {result.source}" if result.model else f"of {result.source}"
        copies = (
            f"{first.n_duplicates:,} of them copies of another"
            if first.n_duplicates
            else "no two of them the same"
        )
        found.append(
            f"{first.n_states:,} states {of}, {copies}, in a {first.index} index. Searched for"
            f" {counted(first.k, 'neighbour')} with {first.recall.n:,} of them, whose rows are"
            f" attacked among {first.n_candidates:,} candidates."
        )
    for layer in dict.fromkeys(cell.layer for cell in result.cells):
        here = [(cell, one) for cell, one in result.measured if cell.layer == layer]
        start = "" if layer is None else f"Layer {layer}. "
        clean = [one for cell, one in here if not cell.released]
        released = [(cell, one) for cell, one in here if cell.released]
        words = []
        if clean:
            more = "".join(f"; {one.storage}, {_pair(one)}" for one in clean[1:])
            words.append(f"Clean, {_found_words(clean[0])}{more}.")
        if released:
            least = min(released, key=lambda pair: (pair[1].attack_top1.mean, -pair[1].recall.mean))
            name = "Released by" if len(released) == 1 else "Of released ones, least is told by"
            words.append(f"{name} {mechanism_words(least[0])}, {_found_words(least[1])}.")
        if words:
            found.append(start + " ".join(words))
    return (*found, *missing_sentences(result))


def missing_sentences(result: HiddenStoreResult) -> tuple[str, ...]:
    """Why an index was not measured."""
    return tuple(
        dict.fromkeys(
            f"{mechanism_words(cell)} at layer {cell.layer} was not measured: "
            + (cell.reason or f"{STATUS[cell.status]}.")
            for cell in result.cells
            if cell.measured is None
        )
    )


def mechanism_words(cell: StoreCell) -> str:
    """The mechanism and its cost."""
    if not cell.released:
        return "clean"
    if cell.target_kl_nats is not None:
        return f"{cell.mechanism} at {short(cell.target_kl_nats)} nats"
    budget = cell.measured.budget_nats if cell.measured else None
    return cell.mechanism if budget is None else f"{cell.mechanism}, {budget:.3g} nats to 1st order"


def range_words(interval: MeanInterval) -> str:
    """A share with its interval."""
    return f"{percent(interval.mean)} ({percent(interval.low)} to {percent(interval.high)})"


def lost_words(found: StoreResult) -> str:
    """Recall lost with its interval."""
    lost = found.recall
    low, high = max(0.0, 1 - lost.high), max(0.0, 1 - lost.low)
    return f"{percent(found.recall_lost)} ({percent(low)} to {percent(high)})"


def _found_words(found: StoreResult) -> str:
    """What one index loses and tells."""
    return (
        f"{found.storage}: {percent(found.recall_lost)} of the neighbours are lost and"
        f" {percent(found.attack_top1.mean)} of the rows are told"
    )


def _pair(found: StoreResult) -> str:
    """The same two numbers alone."""
    return f"{percent(found.recall_lost)} and {percent(found.attack_top1.mean)}"

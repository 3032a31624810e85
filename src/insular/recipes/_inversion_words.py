"""What an inversion found, in sentences that terminal and page share."""

from insular.hidden.intervals import MeanInterval
from insular.hidden.inversion_results import InversionResult
from insular.recipes._numbers import counted, percent
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
)


def verdict_words(result: InversionResult) -> str:
    """The verdict in a few words."""
    if result.n_exact:
        return f"{result.n_exact} of {counted(len(result.prompts), 'prompt')} read exactly"
    if result.n_exact == 0:
        return "No prompt was read exactly"
    if result.n_certain:
        return f"{result.n_certain} of {counted(len(result.prompts), 'prompt')} read, none in doubt"
    return "No prompt was read without doubt"


def answer_sentences(result: InversionResult) -> tuple[str, ...]:
    """What was read, under which release, and how sure that is."""
    kept = "" if result.every == 1 else f", positions 0, {result.every}, {2 * result.every}, ..."
    release = (
        "clean"
        if result.budget_nats is None
        else f"released by {result.mechanism} at {result.budget_nats:.3g} nats to first order"
    )
    found = [
        f"States of layer {result.layer} of {result.model}, {release}, kept in"
        f" {result.storage}{kept}: {verdict_words(result)}."
    ]
    if result.exact_match is not None and result.token_accuracy is not None:
        found.append(
            f"Exact match {interval_words(result.exact_match)}; tokens right"
            f" {interval_words(result.token_accuracy)}."
        )
    if result.ranked_first is not None:
        found.append(
            f"The true token stood first in the ranking at {percent(result.ranked_first)} of the"
            f" kept positions; {result.candidates_per_token:.1f} tokens were tried at a position,"
            f" {result.seconds_per_token:.3f} s a token."
        )
    if result.silent_errors:
        found.append(
            f"{counted(result.silent_errors, 'wrong token')} looked right: accepted, but not true."
        )
    elif result.silent_errors == 0:
        found.append("No wrong token was accepted.")
    return (*found, *result.notes)


def interval_words(interval: MeanInterval) -> str:
    """A share with its interval."""
    level = 100 * (1 - interval.significance)
    return (
        f"{percent(interval.mean)} ({level:.0f}% interval {percent(interval.low)} to"
        f" {percent(interval.high)}, {counted(interval.n, 'prompt')})"
    )

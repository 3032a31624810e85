"""What an audit by one run found, in sentences that the terminal and the page share."""

from insular.accounting import PoissonGaussianEvent
from insular.accounting.events import mechanisms_of
from insular.audit.one_run.results import ENOUGH, GuessCounts, OneRunResult, OneRunVerdict
from insular.recipes._numbers import counted, epsilons, percent, short
from insular.recipes.attack.release._words import confidence, count
from insular.reports.page import VerdictKind

VERDICT_KINDS: dict[OneRunVerdict, VerdictKind] = {
    "refuted": "bad",
    "not refuted": "good",
    "too small to be seen": "open",
}
"""What each verdict means for the promise."""


def verdict_sentences(result: OneRunResult) -> tuple[str, ...]:
    """The answer: the promise, what was found, and what that shows.

    Args:
        result: The audit.

    Returns:
        The sentences; the first one has the claim.
    """
    claim = (
        f"The promise: {_promise(result)}, epsilon {epsilons(result.claimed_epsilon)[0]} at delta"
        f" {short(result.bound.delta)} for each {result.unit}, and the whole trade-off curve above"
        " it."
    )
    return claim, finding_sentence(result), meaning_sentence(result)


def finding_sentence(result: OneRunResult) -> str:
    """What the guesses say of the promise.

    Args:
        result: The audit.

    Returns:
        Two sentences.
    """
    best = result.bound.best
    guessed = (
        f"Of {counted(best.counts.n, 'guess').replace('guesss', 'guesses')} about"
        f" {count(result.bound.n_canaries)} canaries, {best.correct} were right."
    )
    refuted = ["the promised trade-off curve"] if result.bound.curve_refuted else []
    if result.point_refuted:
        promised = f"({result.claimed_epsilon:.3f}, {short(result.bound.delta)})"
        refuted.append(f"the point (epsilon, delta) = {promised}")
    if refuted:
        return f"{guessed} REFUTED is {' and '.join(refuted)}."
    if result.verdict == "not refuted":
        return f"{guessed} Nothing of the promise is refuted."
    return (
        f"{guessed} Nothing is refuted, and a unit that weighs {result.excess:g} times what it may,"
        f" or noise that is {result.excess:g} times smaller, is TOO SMALL TO BE SEEN: this audit"
        f" shows it with probability {result.chance:.2f} only."
    )


def meaning_sentence(result: OneRunResult) -> str:
    """What the audit shows and what it does not, in one sentence.

    Args:
        result: The audit.

    Returns:
        The sentence.
    """
    shows = {
        "refuted": "a unit weighs more in this run's noisy sums than is promised, or they have less"
        " noise",
        "not refuted": f"no unit weighs {result.excess:g} times what it may, nor is the noise"
        " that much smaller, unless this one repetition hid it",
        "too small to be seen": "so many canaries in one repetition cannot tell",
    }[result.verdict]
    return (
        f"It shows that {shows}; it does not show that the promise holds, and says nothing of the"
        " model's gradients."
    )


def epsilon_sentence(result: OneRunResult) -> str:
    """The lower bound beside promise and ceiling.

    Args:
        result: The audit.

    Returns:
        A sentence.
    """
    bound = result.bound
    return (
        f"Epsilon is between {bound.epsilon_lower_bound:.3f} ({confidence(bound.significance)}"
        f" sure, from below) and {result.claimed_epsilon:.3f} (promised) at delta"
        f" {short(bound.delta)}; so many guesses can prove at most {bound.largest_epsilon:.3f}."
    )


def curve_sentence(result: OneRunResult) -> str:
    """What the guesses say of the whole curve.

    Args:
        result: The audit.

    Returns:
        One or two sentences.
    """
    bound = result.bound
    chance = bound.claim_p_value
    at_most = "1e-12" if chance is not None and chance < 1e-11 else f"{chance:.3g}"
    found = (
        f"Under the promised curve so many right guesses have probability {at_most} at most; below"
        f" {short(bound.significance)} it is refuted."
    )
    if result.claimed_mu is None or result.implied_epsilon is None:
        return found
    return (
        f"{found} The promise is one Gaussian of mu {result.claimed_mu:.3f}: proven are"
        f" {bound.mu_lower_bound:.3f}, an epsilon of {result.implied_epsilon:.3f} at delta"
        f" {short(bound.delta)} for a Gaussian, and provable {bound.largest_mu:.3f}."
    )


def chance_sentence(result: OneRunResult) -> str:
    """What so many guesses could have shown.

    Args:
        result: The audit.

    Returns:
        A sentence.
    """
    needed = [f"{one.needed} of {one.counts.n}" for one in result.chances if one.needed is not None]
    how = f"{' or '.join(needed)} right guesses refute" if needed else "no guesses would refute"
    return (
        f"A unit that weighs {result.excess:g} times what it may, or noise that is"
        f" {result.excess:g} times smaller, is shown with probability {result.chance:.2f}"
        f" ({how} the curve); from {ENOUGH:g} on, silence counts."
    )


def limits_sentence(result: OneRunResult) -> str:
    """How far below the promise the bound is to be expected.

    Args:
        result: The audit.

    Returns:
        A sentence or two.
    """
    if result.sampler == "full_batch":
        return (
            "One run proves less than the promise even where that is tight: with a thousand"
            " canaries about half of it."
        )
    return (
        "One run proves far less than the promise even where that is tight: a sampled canary is"
        " left out of most steps, and nobody knows of which. For a bound close to the promise, use"
        " insular attack training, which repeats the run."
    )


def method_sentences(result: OneRunResult) -> tuple[str, ...]:
    """What was repeated, and what the numbers rest on.

    Args:
        result: The audit.

    Returns:
        Sentences.
    """
    length = "C" if result.direction == "dirac" else "100 C, so that clipping has to act"
    absent = "absent" if result.relation == "add_or_remove_one" else "replaced by its opposite"
    n_attempts = len(result.bound.attempts)
    chosen = (
        "The number of guesses was chosen by simulating the promised mechanism, before the run."
        if result.planned
        else "The number of guesses was given before the run."
    )
    found = [
        f"Once, all {counted(result.steps, 'step')} were repeated by the run's own sampler"
        f" ({result.sampler}), clipping, summation, noise, divisor and loop, with"
        f" {count(result.bound.n_canaries)} canaries of gradient length {length}, each in a"
        f" coordinate of its own, and each present or {absent} by a fair coin. The model was not"
        " run.",
        "The attacker sees every noisy sum and scores each canary by the log-likelihood ratio of"
        f" its presence under the promised mechanism, summed over the steps. {chosen}",
        "The point is bounded by Steinke, Nasr and Jagielski (2023), the curve by Mahloujifar,"
        " Melis and Chaudhuri (2024), each with half of the error probability"
        f"{'' if n_attempts == 1 else f', shared by {n_attempts} attempts'}. Neither takes the"
        " scores to be independent. A promise that holds is refuted with probability"
        f" {result.significance:g} at most.",
        limits_sentence(result),
    ]
    if result.ratio < 1 - 1e-9:
        found.append(
            f"The run is charged for coupled records: a canary moves the sum by"
            f" {percent(result.ratio)} of what is promised, so canaries test little of it."
        )
    found.append(
        "Noise and draws come from seeded generators here. Not tested: the secure generator, the"
        " model's gradients, noise that is used again in another step, and whatever the run lets"
        " out beside its noisy sums."
    )
    return tuple(found)


def guessed(counts: GuessCounts) -> str:
    """Numbers of guesses in words.

    Args:
        counts: The numbers.

    Returns:
        Such as ``80 high, 80 low``.
    """
    return f"{counts.highest} high, {counts.lowest} low"


def _promise(result: OneRunResult) -> str:
    """The promised mechanism in words."""
    parts = mechanisms_of(result.event)
    if len(parts) == 1 and isinstance(parts[0], PoissonGaussianEvent):
        return (
            f"{counted(result.steps, 'step')} with noise {parts[0].noise_multiplier:.4g} C and"
            f" Poisson rate {parts[0].sampling_prob:.4g}"
        )
    return f"{counted(result.steps, 'step')} with the {result.sampler} sampler"

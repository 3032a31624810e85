"""What planted secrets showed, in sentences that the terminal and the page share."""

import math

from insular.audit.secrets.exposure import CHANCE_BITS
from insular.audit.secrets.results import ExtractionResult, ExtractionVerdict, SecretGroup
from insular.recipes._numbers import counted, short
from insular.reports.page import VerdictKind

KINDS: dict[ExtractionVerdict, VerdictKind] = {
    "refuted": "bad",
    "not refuted": "good",
    "undecided": "open",
    "nothing promised": "open",
}


def planted_words(group: SecretGroup) -> str:
    """A group of secrets by name.

    Args:
        group: The group.

    Returns:
        Such as ``planted 4 times``.
    """
    if group.repeats == 0:
        return "controls"
    return "planted once" if group.repeats == 1 else f"planted {group.repeats} times"


def answer_sentences(result: ExtractionResult) -> tuple[str, ...]:
    """The answer: what shows, what is promised, and what neither says.

    Args:
        result: The attack.

    Returns:
        One sentence on what it shows, one on the promise, one on what it does not show.
    """
    return (_shows(result), _promise(result), _does_not_show(result))


def method_sentences(result: ExtractionResult) -> tuple[str, ...]:
    """How ranks were found, and what the numbers rest on.

    Args:
        result: The attack.

    Returns:
        Sentences.
    """
    exact = sum(rank.method == "exact" for rank in result.secrets)
    drifts = [rank.drift_nats for rank in result.secrets if rank.drift_nats is not None]
    floor = max(drifts, default=0.0)
    return (
        f"Each secret was drawn evenly from {result.space_size:,} values. {exact} of"
        f" {len(result.secrets)} ranks are exact, the others among"
        " sampled candidates. Candidates within"
        f" {result.secrets[0].tie_nats:g} nats tie; the same likelihood computed in another batch"
        f" moved by {floor:.1g} nats at most.",
        "Exposure is log2 of the space minus log2 of the rank, a tie in the middle:"
        f" {CHANCE_BITS:.2f} bits on average for what the model does not know. The column chance is"
        " the probability of so much exposure if it knows nothing (Fisher).",
        "A promise bounds the probability that a secret ranks in the front share q of its space by"
        " e^epsilon q + delta. How many of several may do so is bounded without taking them as"
        " independent: the smaller of Markov's bound and a binomial tail of posterior"
        f" probabilities. All {len(result.tests)} tests together are wrong with probability"
        f" {result.significance:g} at most; one refutes at {result.level:.2g}.",
        *result.notes,
    )


def bits_interval(group: SecretGroup) -> str:
    """A median with its interval.

    Args:
        group: The group.

    Returns:
        Such as ``1.2 (0.3-2.9)``.
    """
    low, high = group.median_interval
    return f"{group.median_bits:.2f} ({low:.1f}-{high:.1f})"


def p_text(p: float) -> str:
    """A probability; a very small one as a bound."""
    return f"{p:.2g}" if p >= 1e-6 else "< 1e-6"


def samples_text(samples: float) -> str:
    """Samples until one is the secret."""
    if not math.isfinite(samples):
        return "more than 1e300"
    return f"{samples:,.0f}" if samples < 1e7 else f"{samples:.1g}"


def _shows(result: ExtractionResult) -> str:
    """What it shows, in one sentence."""
    n = sum(group.n for group in result.planted)
    spelled = sum(group.greedy.count for group in result.planted)
    most = max(result.planted, key=lambda group: group.mean_bits)
    return (
        f"It shows that of {counted(n, 'planted secret')} greedy decoding spells {spelled}, and"
        f" that those {planted_words(most)} have a mean exposure of {most.mean_bits:.2f} of"
        f" {math.log2(result.space_size):.2f} bits, against {result.controls.mean_bits:.2f} of the"
        f" {result.controls.n} controls that were planted nowhere."
    )


def _promise(result: ExtractionResult) -> str:
    """What became of the promise."""
    if result.epsilon is None or result.delta is None:
        return "Nothing is promised for this model, so no promise was tested."
    words = f"epsilon {result.epsilon:.4g} at delta {short(result.delta)} for one {result.unit}"
    caveat = f" ({result.caveat})" if result.caveat else ""
    if result.verdict == "refuted":
        test = min(result.refuting, key=lambda test: test.p_value)
        return (
            f"The promise of {words}{caveat} is REFUTED: {test.count} of {test.n} secrets planted"
            f" {test.repeats} times rank in the front {test.share:g} of the space, which the"
            f" promise allows with probability {p_text(test.p_value)} at most."
        )
    if result.verdict == "undecided":
        if not result.controls_random:
            why = "the controls do not look random, so plan and model do not belong together"
        elif all(test.probability >= 1 for test in result.tests):
            why = "so large an epsilon allows every secret to stand in front"
        else:
            why = "so few secrets could refute nothing, even if all of them stood in front"
        return f"Whether the promise of {words}{caveat} holds is UNDECIDED: {why}."
    return f"The promise of {words}{caveat} is not refuted by these ranks."


def _does_not_show(result: ExtractionResult) -> str:
    """What it does not show, in one sentence."""
    return (
        "It does not show what the model remembers of real records, which are not drawn from a"
        " known space, nor that an attacker with other prompts or other scores would not find more."
    )

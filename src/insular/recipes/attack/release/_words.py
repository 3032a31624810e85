"""What an attack on releases found, in sentences that the terminal and the page share."""

from insular.recipes._numbers import counted, short
from insular.recipes.attack.release.results import ReleaseResult, ReleaseVerdict, StackRelease
from insular.reports.page import VerdictKind

KINDS: dict[ReleaseVerdict, VerdictKind] = {
    "refuted": "bad",
    "not refuted": "good",
    "undecided": "open",
}


def confidence(significance: float) -> str:
    """How sure a statement is, in per cent.

    Args:
        significance: Its error probability.

    Returns:
        Such as ``97.5%``.
    """
    return f"{100 * (1 - significance):.4g}%"


def count(n: int | None) -> str:
    """A number of draws, with commas up to a million.

    Args:
        n: The number, or None.

    Returns:
        Such as ``31,992`` or ``5.1e+08``.
    """
    if n is None:
        return "none"
    return f"{n:,}" if n < 10**7 else f"{n:.2g}"


def stack_sentence(stack: StackRelease) -> str:
    """The verdict on one stack, with the claim that it is about.

    Args:
        stack: The stack.

    Returns:
        Two or three sentences.
    """
    bound = stack.tradeoff
    claim = f"the promised trade-off curve, that of one Gaussian step of mu {stack.claimed_mu:.4g},"
    proven = (
        f"With {confidence(bound.significance)} confidence an attacker reaches mu"
        f" {bound.mu_lower_bound:.4g}."
    )
    measured = f"its audit measured {stack.ratio:.6g} times the promised sensitivity"
    if not stack.excess:
        measured = "its audit measured no excess over the promised sensitivity"
    if stack.verdict == "refuted":
        return f"{stack.stack}: {claim} is REFUTED. {proven} The cause: {measured}."
    if stack.verdict == "undecided":
        chance = 0.0 if stack.chance is None else stack.chance
        return (
            f"{stack.stack}: whether {claim} holds is UNDECIDED. {proven} That refutes nothing, but"
            f" {measured}, and {count(stack.draws)} releases of each neighbour would show it with"
            f" probability {chance:.2g} only."
        )
    return f"{stack.stack}: {claim} is not refuted. {proven} Besides, {measured}."


def points_sentences(result: ReleaseResult) -> tuple[str, ...]:
    """What the single points say, beside the curve.

    Args:
        result: The attack.

    Returns:
        One sentence for each stack with a refuted point, or one for all.
    """
    found = []
    for stack in result.stacks:
        triples = zip(stack.points, stack.claimed_epsilons, stack.points_refuted, strict=True)
        refuted = [f"({claim:.2f}, {short(bound.delta)})" for bound, claim, no in triples if no]
        if refuted:
            found.append(
                f"{stack.stack}: refuted by itself is (epsilon, delta) = {', '.join(refuted)}."
            )
    return tuple(found) or (
        "No single point (epsilon, delta) is refuted: a test of one point needs far more draws than"
        " a test of the curve that it lies on.",
    )


def needed_sentence(stack: StackRelease) -> str:
    """How many draws the measured excess takes.

    Args:
        stack: The stack.

    Returns:
        A sentence.
    """
    if not stack.excess:
        return f"{stack.stack}: the audit measured no excess, so no number of draws should refute."
    needed = "more than 1e12" if stack.draws_needed is None else count(stack.draws_needed)
    chance = 0.0 if stack.chance is None else stack.chance
    return (
        f"{stack.stack}: to refute the curve at ratio {stack.ratio:.4g} with probability 0.95 takes"
        f" {needed} draws of each neighbour; {count(stack.draws)} do it with probability"
        f" {chance:.4f}."
    )


def method_sentences(result: ReleaseResult) -> tuple[str, ...]:
    """What was drawn, and what the numbers rest on.

    Args:
        result: The attack.

    Returns:
        Sentences.
    """
    first = result.stacks[0]
    drawn = (
        f"Each release is the whole adapter, {result.n_params:,} float32 coordinates: the audit's"
        f" clipped sum, noise of standard deviation {result.noise_multiplier:g} C on every"
        f" coordinate, the divisor {result.expected_batch_size:g} and one SGD step of rate"
        f" {result.spec.learning_rate:g} from {result.start}. Its displacement is projected onto"
        " the difference of the two sums, in float64."
        if result.spec.statistic == "full-vector"
        else "Drawn was the EXACT SCALAR: the projection of an ideal release, in real numbers. It"
        " audits the mechanism that is meant, with the audit's distance, and not the code that adds"
        " noise."
    )
    return (
        drawn,
        f"The neighbours are {counted(result.n_baseline, 'record')} with and without"
        f" {result.record}, every record in the step (no sampling). Forward, backward and clipping"
        " were not run again.",
        f"Of {count(first.draws)} draws of each neighbour every other one chose the threshold, the"
        " rest judged it, by exact binomial bounds. All curves together are wrong with probability"
        f" {result.spec.significance:g} at most, and so are all points.",
        "The noise comes from a seeded generator that is not a secure one, and is taken to be what"
        " it should be; the statement is about this pair and this step alone.",
    )

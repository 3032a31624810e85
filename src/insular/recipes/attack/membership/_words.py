"""What a membership attack found, in sentences that the terminal and the page share."""

from insular.audit.membership.results import (
    Area,
    Counts,
    MembershipResult,
    MembershipVerdict,
    OperatingPoint,
    ScoreFinding,
    ScoreName,
)
from insular.audit.membership.shadow_results import ShadowUse
from insular.audit.statistics.rates import clopper_pearson
from insular.recipes._numbers import counted, short
from insular.recipes.attack.release._words import confidence, count
from insular.reports.page import VerdictKind

KINDS: dict[MembershipVerdict, VerdictKind] = {
    "refuted": "bad",
    "not refuted": "good",
    "undecided": "open",
    "no promise": "open",
}
"""What each verdict means for the claim."""


def score_name(score: ScoreName, lowest_percent: int) -> str:
    """A score in a few words.

    Args:
        score: Which.
        lowest_percent: Of the min-k score.

    Returns:
        Such as ``min-20%``.
    """
    return {
        "loss": "loss",
        "zlib": "loss / zlib",
        "reference": "loss - reference",
        "lowest": f"min-{lowest_percent}%",
        "likelihood ratio": "likelihood ratio",
        "one-sided likelihood ratio": "one-sided ratio",
    }[score]


def rate_text(point: OperatingPoint) -> str:
    """A true positive rate with its interval, in per cent."""
    rate = 100 * point.tpr.count / point.tpr.n
    return f"{rate:.1f} ({100 * point.tpr.lower:.1f} to {100 * point.tpr.upper:.1f})"


def area_text(area: Area) -> str:
    """An area with its interval."""
    return f"{area.area:.3f} ({area.lower:.3f} to {area.upper:.3f})"


def verdict_sentences(result: MembershipResult) -> tuple[str, ...]:
    """The answer: what is promised, what was found, what that does not show.

    Args:
        result: The attack.

    Returns:
        Sentences; the first one has the verdict.
    """
    return (claim_sentence(result), shows_sentence(result), limits_sentence(result))


def claim_sentence(result: MembershipResult) -> str:
    """The promise, and whether it stands.

    Args:
        result: The attack.

    Returns:
        One to three sentences.
    """
    claim = result.claim
    if claim is None:
        return f"Nothing is promised for {result.name}, so there is nothing to refute."
    promise = (
        f"{claim.source} promises epsilon {claim.epsilon:.4g} at delta {short(claim.delta)} for"
        f" each {claim.unit}{', and a whole trade-off curve' if claim.whole else ''}"
    )
    if result.verdict == "refuted":
        refuting = ", ".join(_named(one, result) for one in result.scores if one.refutes)
        return f"REFUTED: {promise}; more members are found than that allows, by {refuting}."
    if result.verdict == "not refuted":
        return f"Not refuted: {promise}; no attack here finds more members than that allows."
    if not result.shift.found or not any(one.refutes for one in result.scores):
        return (
            f"UNDECIDED: {promise}; even a perfect attack on so few"
            f" {'owners' if result.by_owner else 'records'} could not refute it."
        )
    return (
        f"UNDECIDED: {promise}; more members are found than that allows, but the two files differ"
        " without the model too, so this may be no leak. Give members and non-members that were"
        " drawn from one pool at random."
    )


def shows_sentence(result: MembershipResult) -> str:
    """What the attack shows.

    Args:
        result: The attack.

    Returns:
        One or two sentences.
    """
    best = result.best
    point = best.points[-1]
    rate = point.tpr.count / point.tpr.n
    unit = "owner" if result.by_owner else "record"
    members = counted(point.tpr.n, f"member {unit}")
    text = (
        f"What this shows: at a false positive rate of {100 * point.wanted_fpr:g}%, scoring by"
        f" {_named(best, result)} finds {100 * rate:.1f}% of {members}"
        f" ({confidence(result.significance)} interval {100 * point.tpr.lower:.1f}% to"
        f" {100 * point.tpr.upper:.1f}%)."
    )
    if result.claim is not None:
        bound = best.tradeoff
        text += (
            f" Held out, it has false positives of {100 * bound.fpr.upper:.2f}% at most and finds"
            f" {100 * bound.tpr.lower:.2f}% at least, where {100 * (best.allowed or 0):.2f}% are"
            " allowed."
        )
    return text


def limits_sentence(result: MembershipResult) -> str:
    """What the attack does not show.

    Args:
        result: The attack.

    Returns:
        One sentence.
    """
    return (
        "What this does not show: that the model keeps its records, since a weak attack can miss"
        " real leakage; nor that any one record was learnt from, since a score is no verdict."
    )


def warning_sentences(result: MembershipResult) -> tuple[str, ...]:
    """Everything that weakens the numbers, each in a sentence.

    Args:
        result: The attack.

    Returns:
        Sentences; the one on the shift is always there.
    """
    found = [_shift_sentence(result)]
    unresolved = [p for p in result.scores[0].points if not p.resolved]
    if unresolved:
        n = unresolved[0].fpr.n
        _, least = clopper_pearson(0, n, significance=result.significance, sides="upper")
        rates = " and ".join(f"{100 * p.wanted_fpr:g}%" for p in unresolved)
        smallest = min(point.wanted_fpr for point in unresolved)
        needed = f" That takes {count(round(1 / smallest))} or more." if smallest else ""
        found.append(
            f"{n} non-members cannot resolve a false positive rate of {rates}: with none of them"
            f" above a threshold the rate may still be {100 * least:.2g}%.{needed}"
        )
    if any(one.auc.upper < 0.5 for one in result.scores):
        names = ", ".join(_named(one, result) for one in result.scores if one.auc.upper < 0.5)
        found.append(
            f"By {names}, members look LESS like members: an attacker who turns the score around"
            " finds them. The tests look both ways."
        )
    if result.overlap.found:
        found.append(
            f"{counted(len(result.overlap.found), 'non-member')} repeated what was learnt from"
            f" (similarity {result.overlap.threshold:g} or more) and took no part."
        )
    for name, side in (("member", result.members), ("non-member", result.non_members)):
        found += _side_sentences(name, side)
    if result.found_in_training is not None and result.found_in_training < result.members.scored:
        found.append(
            f"Only {result.found_in_training} of {result.members.read} members stand in the text"
            " that the run learnt from: the others can only hide a leak."
        )
    if result.claim is not None and result.claim.caveat:
        found.append(f"The promise is an estimate: {result.claim.caveat}.")
    return tuple(found)


def method_sentences(result: MembershipResult) -> tuple[str, ...]:
    """How the numbers came about, and what they rest on.

    Args:
        result: The attack.

    Returns:
        Sentences.
    """
    unit = "owner, the mean over their records" if result.by_owner else "record"
    found = [
        f"One score for each {unit}, joined by id: {result.members.units} members,"
        f" {result.non_members.units} non-members. Loss is the mean over the tokens of a record but"
        " its first; zlib divides it by the compressed length of the text; min-"
        f"{result.lowest_percent}% is the mean loss of the least likely tokens.",
    ]
    if result.reference:
        found.append(f"The reference is {result.reference}.")
    if result.shadows is not None:
        found.append(_shadow_sentence(result.shadows))
    found.append(
        f"Rates are exact binomial bounds, at {confidence(result.significance)}. All"
        f" {result.n_tests} tests together refute a promise that holds with probability"
        f" {result.significance:g} at most; the curve's threshold is chosen by one half of the"
        " records and judged by the other."
    )
    found.append(
        "That rests on members and non-members being independent draws from one pool. All of them"
        " meet one trained model, so a refutation close to the promise should be confirmed with"
        " insular attack training, which repeats the run."
    )
    return tuple(found)


def _shadow_sentence(use: ShadowUse) -> str:
    """What shadow models a likelihood ratio rests on."""
    whose = (
        f"{use.n_models} training runs, each on its own part of the records"
        if use.runs
        else f"{use.n_models} shadow models, as they were given"
    )
    text = (
        "A likelihood ratio compares a record's loss with Gaussians around its losses under"
        f" {whose}: at least 2 models with and 2 without the record for {use.n_both} of"
        f" {use.n_both + use.n_one_side} records"
    )
    if use.n_one_side and use.n_both >= use.n_one_side:
        text += "; where one side is missing, the other one is moved by the mean difference"
    spread = "each record's own" if use.own_spread else "one for all records, as models are few"
    return f"{text}. The spread on a side is {spread} (Carlini et al. 2022)."


def _shift_sentence(result: MembershipResult) -> str:
    """What a classifier finds without the model, and what that means for the attack."""
    shift = result.shift
    base = (
        f"Without the model, a classifier of the texts alone ({shift.features}) reaches an area of"
        f" {area_text(shift.auc)}"
    )
    beaten = [one for one in result.scores if one.auc.area > shift.auc.area]
    if shift.found:
        return (
            f"{base}: the two files DIFFER. An attack whose area is not above that proves nothing"
            f" ({len(beaten)} of {len(result.scores)} are above)."
        )
    return f"{base}: no difference of the files was found. An attack at or below it proves nothing."


def _side_sentences(name: str, side: Counts) -> list[str]:
    """What became of the records of one file."""
    found = []
    if side.repeated:
        found.append(
            f"{counted(side.repeated, name)} repeat an earlier one of the same file: they are no"
            " independent draws, and the intervals are too narrow."
        )
    if side.too_short:
        found.append(f"{counted(side.too_short, name)} took no part: fewer than two tokens.")
    if side.truncated:
        found.append(f"{counted(side.truncated, name)} were scored by their beginning only.")
    return found


def _named(one: ScoreFinding, result: MembershipResult) -> str:
    """A score's name, for a sentence."""
    return score_name(one.score, result.lowest_percent)

"""What attribute inference showed, in sentences that the terminal and the page share."""

from insular.audit.attribute.results import AttributeResult, AttributeVerdict, PairedComparison
from insular.audit.statistics.bounds import Rate
from insular.recipes._numbers import percent
from insular.reports.page import VerdictKind

KINDS: dict[AttributeVerdict, VerdictKind] = {
    "tells more": "bad",
    "not shown": "good",
    "undecided": "open",
}


def rate_text(rate: Rate) -> str:
    """A rate with its interval.

    Args:
        rate: The rate.

    Returns:
        Such as ``62.0% (50.1%-72.9%)``.
    """
    return f"{percent(rate.count / rate.n)} ({percent(rate.lower)}-{percent(rate.upper)})"


def difference_text(row: PairedComparison) -> str:
    """A difference of accuracies with its interval, in points of per cent."""
    low, high = (100 * end for end in row.difference_interval)
    return f"{100 * row.difference:+.1f} ({low:+.1f} to {high:+.1f})"


def answer_sentences(result: AttributeResult) -> tuple[str, ...]:
    """The answer, and what it does not say.

    Args:
        result: The attack.

    Returns:
        One sentence on what it shows, one on what it does not.
    """
    against = " and ".join(
        f"{percent(row.accuracy.count / row.accuracy.n)} by the"
        f" {'most common value' if row.baseline == 'population' else 'base model'}"
        f" (p {row.p_value:.2g})"
        for row in result.comparisons
    )
    measured = (
        f"the likeliest of {result.n_values} values of {result.attribute} is the true one for"
        f" {percent(result.accuracy.count / result.n_records)} of {result.n_records} records,"
        f" against {against}"
    )
    shows = {
        "tells more": f"It shows that the model tells more than its population does: {measured}.",
        "not shown": f"It does not find more than the baselines do: {measured}.",
        "undecided": f"So few records can show nothing at {result.significance:g}: {measured}.",
    }[result.verdict]
    return (
        shows,
        "It does not show whether a record was learnt from: who shares traits with those that were"
        " is guessed better as well; nor that another template would not find more.",
    )


def method_sentences(result: AttributeResult) -> tuple[str, ...]:
    """What the numbers rest on.

    Args:
        result: The attack.

    Returns:
        Sentences.
    """
    return (
        "Each record is written once with every value; the guess is the value whose whole text is"
        f" likeliest. Ties count as not guessed: {result.n_tied} here.",
        f"The most common value is from {result.population}.",
        "Accuracies have exact 95% intervals. Differences are judged on the records that only one"
        " guesses (exact McNemar, one side), which takes records as independent; their intervals"
        " are exact and wide.",
        "The model tells more only if it beats every baseline; that is wrong with probability"
        f" {result.significance:g} at most.",
    )

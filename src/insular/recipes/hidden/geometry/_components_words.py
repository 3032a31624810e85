"""What a layer's states are made of, in sentences."""

from insular.hidden.states.numerics_results import NumericsResult, Way
from insular.hidden.utility.results import ProjectionResult
from insular.recipes._numbers import amount
from insular.recipes.hidden.geometry.components_results import ComponentsResult
from insular.recipes.hidden.sweep._words import share

WAYS: dict[Way, str] = {
    "repeat": "the same again",
    "batched": "in one batch, padded right",
    "batched_left": "in one batch, padded left",
    "padded": "alone, padded right",
    "padded_left": "alone, padded left",
    "incremental": "token by token, with a cache",
    "bfloat16": "alone, in bfloat16",
}
"""How states were computed, in words."""
OPPOSITE = "The two centrings name opposite parts here: a claim must say which one it means."
_LOSSES = {
    (True, True): "Leaving those directions out costs more KL than leaving out as many random "
    "ones, by either centring.",
    (True, False): "Leaving those directions out costs more KL than leaving out as many random "
    "ones about zero; about the mean these prompts do not tell.",
    (False, True): "Leaving those directions out costs more KL than leaving out as many random "
    "ones about the mean; about zero these prompts do not tell.",
    (False, False): "These prompts do not tell that leaving those directions out costs more KL "
    "than leaving out as many random ones.",
}
"""What is lost without the directions, about zero and about the mean."""


def component_sentences(found: ComponentsResult) -> tuple[str, ...]:
    """Where a layer's prediction lives, beside random directions.

    Guarantees:
        * Both centrings are stated, each beside the random directions.

    Args:
        found: The layer.

    Returns:
        Two sentences; a third where the centrings contradict each other.
    """
    (alone, random_alone), (without, random_without) = _stays(found.centred)
    zero = " and ".join(f"{given} ({random})" for given, random in _stays(found.uncentred))
    sentences = (
        f"Layer {found.layer}: kept alone, about the mean state, the {found.centred.rank} "
        f"directions that the model reads most leave {alone} of next tokens as they were (random "
        f"directions: {random_alone}); without them, {without} stay ({random_without}).",
        f"About zero it is {zero}.",
    )
    return (*sentences, OPPOSITE) if found.centring_decides else sentences


def carrier_sentence(found: ComponentsResult) -> str:
    """Which part carries the prediction, by each centring, and whether random ones do as well.

    Args:
        found: The layer.

    Returns:
        A sentence or two.
    """
    named = {"inside": "those directions", "outside": "the rest", None: "undecided"}
    zero, mean = (named[found.carrier(centred=centred)] for centred in (False, True))
    sentence = (
        f"Layer {found.layer}: the part that keeps more of the prediction, read by the remaining "
        f"layers, is {zero} about zero, {mean} about the mean. {_LOSSES[_losses(found)]}"
    )
    return f"{sentence} {OPPOSITE}" if found.centring_decides else sentence


def rounding_sentence(numerics: NumericsResult, found: ComponentsResult) -> str:
    """How far a layer's states move by rounding, against the nearest other prompt.

    Args:
        numerics: The certificate.
        found: The layer.

    Returns:
        A sentence.
    """
    shifts = [shift for shift in numerics.shifts if shift.layer == found.layer]
    moved = max(
        (shift for shift in shifts if shift.way != "bfloat16"), key=lambda one: one.max_relative
    )
    coarse = next((shift for shift in shifts if shift.way == "bfloat16"), None)
    also = f", bfloat16 by up to {amount(coarse.max_relative)}" if coarse else ""
    broken = [WAYS[shift.way] for shift in shifts if not found.keeps_apart(shift)]
    verdict = (
        f"Twice the move is not below that: {'; '.join(broken)}."
        if broken
        else "No such move takes one prompt for another."
    )
    return (
        f"Layer {found.layer}: batch, padding and cache move a state by up to "
        f"{amount(moved.max_relative)} of its length{also}; the nearest other prompt is at least "
        f"{amount(found.nearest_relative)} away, {amount(found.nearest_median_relative)} in the "
        f"median. {verdict}"
    )


def _stays(found: ProjectionResult) -> tuple[tuple[str, str], ...]:
    """Next tokens that stay, for both parts: of the given directions, of random ones."""
    return tuple(
        (
            share(found.entry("injection", part, "given").agreement.mean),
            share(found.entry("injection", part, "random").agreement.mean),
        )
        for part in ("inside", "outside")
    )


def _losses(found: ComponentsResult) -> tuple[bool, bool]:
    """Whether the rest surely costs more than the rest of random directions."""
    zero, mean = (
        each.entry("injection", "outside", "given").kl_nats.low
        > each.entry("injection", "outside", "random").kl_nats.high
        for each in (found.uncentred, found.centred)
    )
    return zero, mean

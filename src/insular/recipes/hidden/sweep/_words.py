"""What a sweep found, in sentences that terminal and page share."""

from insular.recipes.hidden.sweep.results import SweepCell, SweepResult

FAMILIES = {
    "isotropic": "isotropic",
    "complement": "low rank",
    "fisher-complement": "low rank",
    "generalized-eigen": "low rank",
    "generalized-eigen-floor": "full covariance",
    "adaptive-optimum": "full covariance",
    "adaptive-optimum-near": "full covariance",
    "inverse-fisher": "full covariance",
    "diagonal-inverse-fisher": "diagonal",
    "alpha-half": "diagonal",
    "diagonal-mahalanobis": "diagonal",
    "mutual-information": "full covariance",
    "worst-case": "full covariance",
    "quantization": "not Gaussian",
    "dropout": "not Gaussian",
}
"""Shape of each mechanism, for figures."""

PREDICTION_ERROR = 0.05
"""Distance of predicted and measured top-1 up to which the predictor is said to hold."""


STATUS = {
    "too_weak": "not reached: its noise stays where the model does not look",
    "too_strong": "not reached: its least noise costs more",
    "jumps": "not reached: its KL jumps over the target",
    "not fitted": "not fitted",
}
"""Why a cell was not attacked."""


def answer_sentences(result: SweepResult) -> tuple[str, ...]:
    """The answer for each layer, then what it means and how many cells it rests on.

    Args:
        result: The sweep.

    Returns:
        Sentences.
    """
    inside, perhaps, n = (
        len(result.in_the_middle),
        len(result.perhaps_in_the_middle),
        len(result.attacked),
    )
    count = (
        f"Useful: at least {share(result.agreement)} of prompts keep their most likely next token. "
        f"Private: the best attacker tried finds at most {share(result.top1)} of prompts. "
        f"{inside} of {n} releases that reached their KL are both; by their "
        f"{share(1 - result.significance)} intervals, {perhaps} could be."
    )
    return (*(_layer_answer(result, layer.layer) for layer in result.layers), count)


def _layer_answer(result: SweepResult, layer: int) -> str:
    """Which release of a layer to take, or that there is none."""
    inside = [cell for cell in result.in_the_middle if cell.layer == layer]
    among = f"among {result.n_candidates:,} candidates."
    if inside:
        best = max(inside, key=lambda cell: cell.agreement or 0.0)
        return f"Layer {layer}: {cell_words(best)} {among} That is useful and private."
    near = result.nearest(layer)
    if near is None:
        return f"Layer {layer}: no mechanism reached a target; nothing was attacked."
    return (
        f"Layer {layer}: no release is both useful and private. The nearest: "
        f"{cell_words(near)} {among}"
    )


def cell_words(cell: SweepCell) -> str:
    """A cell with its two numbers.

    Args:
        cell: One that was attacked.

    Returns:
        A sentence that still wants the number of candidates.
    """
    assert cell.utility is not None and cell.agreement is not None and cell.top1 is not None
    return (
        f"{cell.mechanism} at a measured KL of {cell.utility.kl_nats.mean:.2g} nats keeps the most "
        f"likely next token of {share(cell.agreement)} of prompts, and the best attacker finds "
        f"{share(cell.top1)} of them"
    )


def clean_sentence(result: SweepResult) -> str:
    """What a state gives away that is released as it is.

    Args:
        result: The sweep.

    Returns:
        A sentence.
    """
    found = [attack.top_1.value for layer in result.layers for attack in layer.clean[:1]]
    shares = dict.fromkeys((share(min(found)), share(max(found))))
    return (
        f"A state that is released unchanged leads to its prompt in {' to '.join(shares)} of "
        f"{result.n_queries:,} queries, among {result.n_candidates:,} candidates."
    )


def prediction_sentences(result: SweepResult) -> tuple[str, ...]:
    """How well retrieval was foretold, for each layer.

    Args:
        result: The sweep.

    Returns:
        Sentences.
    """
    found = []
    for layer in result.layers:
        errors = {
            words: max(errors)
            for words, isotropic in (("isotropic", True), ("other Gaussian", False))
            if (errors := _errors(result, layer.layer, isotropic=isotropic))
        }
        if not errors:
            continue
        words = " and ".join(f"{error:.2f} for {name} noise" for name, error in errors.items())
        holds = max(errors.values()) <= PREDICTION_ERROR
        verdict = "" if holds else (
            " Its assumption, that wrong candidates are no more like each other than like the "
            "right one, does not hold here."
        )  # fmt: skip
        found.append(
            f"Layer {layer.layer}: the prediction of the aware attacker's top-1 is wrong by at "
            f"most {words}.{verdict}"
        )
    return tuple(found)


def low_rank_sentence(result: SweepResult) -> str:
    """What became of noise that leaves directions out.

    Args:
        result: The sweep.

    Returns:
        A sentence; empty if no such mechanism ran.
    """
    tops = [
        cell.attacks[-1].top_1.value
        for cell in result.attacked
        if FAMILIES[cell.mechanism] == "low rank"
    ]
    if not tops:
        return ""
    return (
        "Low-rank noise leaves directions as they are: an attacker who looks there finds "
        f"{share(min(tops))} {'' if min(tops) == 1 else 'or more '}of the prompts among "
        f"{result.n_candidates:,} candidates, at every KL."
    )


def share(value: float) -> str:
    """A share as per cent, to three digits.

    Args:
        value: From 0 to 1.

    Returns:
        The text.
    """
    return f"{100 * value:.3g}%"


METHOD = (
    "Each mechanism is scaled until its KL, measured through the rest of the model on calibration "
    "prompts, is the target. Use and attacks are then measured on other prompts. Equal noise is "
    "not equal use, so nothing here is compared at equal noise.",
    "Three attackers search the candidates: one by plain distance; one by distance within the "
    "subspace that the model reads most; and an aware one who knows the mechanism, and looks first "
    "where it adds no noise, then in units of its noise. The best of them counts.",
    "Top-1 depends on the number of candidates: more of them make every attacker look worse.",
    "An attack that fails proves no privacy: others, such as one that spells the prompt word by "
    "word, may succeed. An epsilon, where there is one, holds against any attacker, for one pair "
    "of prompts of that distance and one released state.",
    "The folder of the states holds what prompts can be recovered from: keep it as you keep the "
    "text.",
)
"""What was done, and what it does not show."""


def _errors(result: SweepResult, layer: int, *, isotropic: bool) -> list[float]:
    """Distances of predicted and measured top-1 of the aware attacker."""
    return [
        abs(cell.predicted_top1 - cell.attacks[-1].top_1.value)
        for cell in result.attacked
        if cell.layer == layer
        and cell.predicted_top1 is not None
        and (cell.mechanism == "isotropic") == isotropic
    ]

"""What a sweep found, in sentences that terminal and page share."""

from insular.recipes.hidden_results import SweepCell, SweepResult

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


def answer_sentences(result: SweepResult) -> tuple[str, ...]:
    """The answer for each layer, then how many cells it rests on.

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
        f"{inside} of {n} releases that reached their KL are both useful (top-1 agreement at least "
        f"{result.agreement:g}) and private (retrieval top-1 at most {result.top1:g}); by their "
        f"{1 - result.significance:.0%} intervals, at most {perhaps} could be."
    )
    return (*(_layer_answer(result, layer.layer) for layer in result.layers), count)


def _layer_answer(result: SweepResult, layer: int) -> str:
    """Which release of a layer to take, or that there is none."""
    inside = [cell for cell in result.in_the_middle if cell.layer == layer]
    wanted = (
        f"keeps top-1 agreement at {result.agreement:g} or more and retrieval at {result.top1:g} "
        f"or less among {result.n_candidates:,} candidates"
    )
    if inside:
        best = max(inside, key=lambda cell: cell.agreement or 0.0)
        return f"Layer {layer}: {cell_words(best)} {wanted}."
    near = result.nearest(layer)
    if near is None:
        return f"Layer {layer}: no mechanism reached a target; nothing was attacked."
    return f"Layer {layer}: no release {wanted}. Nearest: {cell_words(near)}."


def cell_words(cell: SweepCell) -> str:
    """A cell with its two numbers.

    Args:
        cell: One that was attacked.

    Returns:
        Words for the middle of a sentence.
    """
    assert cell.utility is not None
    return (
        f"{cell.mechanism} at a measured KL of {cell.utility.kl_nats.mean:.2g} nats (agreement "
        f"{cell.agreement:.2f}, found {cell.top1:.2f})"
    )


def clean_sentence(result: SweepResult) -> str:
    """What a state gives away that is released as it is.

    Args:
        result: The sweep.

    Returns:
        A sentence.
    """
    found = min(attack.top_1.value for layer in result.layers for attack in layer.clean[:1])
    return (
        f"Released as it is, a state gives its prompt away in {found:.0%} of "
        f"{result.n_queries:,} queries or more."
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
            name: max(errors)
            for name in ("isotropic", "other")
            if (errors := _errors(result, layer.layer, isotropic=name == "isotropic"))
        }
        if not errors:
            continue
        iso = errors.get("isotropic")
        words = "" if iso is None else f"isotropic noise within {iso:.2f}"
        if "other" in errors:
            words += (
                f"{', ' if words else ''}other Gaussian mechanisms within {errors['other']:.2f}"
            )
        holds = iso is None or iso <= PREDICTION_ERROR
        verdict = "" if holds else (
            " Its assumption, that all candidates are as far from a query as the typical one, does "
            "not hold here."
        )  # fmt: skip
        found.append(f"Layer {layer.layer}: top-1 was foretold for {words}.{verdict}")
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
        f"Low-rank noise leaves directions out: an attacker who looks there finds at least "
        f"{min(tops):.3f} of the prompts, at every KL."
    )


METHOD = (
    "Every mechanism is scaled until its KL, measured through the rest of the model on calibration "
    "prompts, is the target; use and attack are then measured on other prompts. Equal noise would "
    "not be equal use, so no table here compares at equal noise.",
    "The attackers: plain distance; distance within the subspace that the model reads most; and "
    "one who knows the mechanism, first where it adds no noise, then in units of its noise. The "
    "best of them counts.",
    "Top-1 depends on the bank: more candidates make every attacker look worse.",
    "An attack that fails shows no privacy: others, such as an inverter that knows the language, "
    "may succeed. Epsilon, where there is one, holds for any attacker and one released state.",
    "Folder states/ holds hidden states: text can be recovered from them, keep it as you keep the "
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

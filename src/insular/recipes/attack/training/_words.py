"""What an attack on a training run found, in sentences that the terminal and the page share."""

from insular.accounting import PoissonGaussianEvent
from insular.accounting.events import mechanisms_of
from insular.audit.training.results import GameFinding, TrainingAttackResult
from insular.recipes._numbers import counted, epsilons, in_clip_norms, short
from insular.recipes.attack.release._words import confidence, count

GAMES = {"canaries": "planted canaries", "pair": "audited pair"}
"""Each game in words."""


def verdict_sentences(result: TrainingAttackResult) -> tuple[str, ...]:
    """The answer, one sentence or two a game.

    Args:
        result: The attack.

    Returns:
        The sentences; the first one has the claim.
    """
    claim = (
        f"The promise: {_promise(result)}, epsilon {epsilons(result.claimed_epsilon)[0]} at delta"
        f" {short(result.delta)} for each {result.unit}, and the whole trade-off curve above it."
    )
    return (claim, *(game_sentence(game) for game in result.games))


def game_sentence(game: GameFinding) -> str:
    """What one game says of the promise.

    Args:
        game: The game.

    Returns:
        Two or three sentences.
    """
    bound = game.tradeoff
    name = f"{GAMES[game.game]}{f' on {game.stack}' if game.stack else ''}"
    point = (
        f"By the {game.score} and at false positives of {bound.fpr.upper:.4f} at most, it finds"
        f" {bound.tpr.lower:.4f} at least, where the promise allows {game.allowed_rate:.4f}"
        f" ({confidence(bound.significance)} sure)."
    )
    refuted = ["the promised trade-off curve"] if game.curve_refuted else []
    if game.point_refuted:
        promised = f"({game.claimed_epsilon:.3f}, {short(game.point.delta)})"
        refuted.append(f"the point (epsilon, delta) = {promised}")
    if refuted:
        return f"{_upper(name)}: REFUTED is {' and '.join(refuted)}. {point}"
    if game.verdict == "undecided":
        return f"{_upper(name)}: UNDECIDED. {point} {chance_sentence(game)}"
    return f"{_upper(name)}: not refuted. {point} {chance_sentence(game)}"


def epsilon_sentence(game: GameFinding) -> str:
    """The lower bound beside the upper one.

    Args:
        game: The game.

    Returns:
        A sentence.
    """
    low, high = game.point.epsilon_lower_bound, game.claimed_epsilon
    sure = confidence(game.point.significance)
    return (
        f"{_upper(GAMES[game.game])}: epsilon is between {low:.3f} ({sure}"
        f" sure, from below) and {high:.3f} (promised) at delta {short(game.point.delta)}; so many"
        f" scores can prove at most {game.largest_epsilon:.3f}."
    )


def chance_sentence(game: GameFinding) -> str:
    """What so many scores could have shown, and how many it takes.

    Args:
        game: The game.

    Returns:
        A sentence.
    """
    if game.excess is None or game.chance is None:
        return f"The audit measured {game.ratio:.6g} times the promised sensitivity: no excess."
    what = (
        f"a unit that weighs {game.excess:g} times what it may"
        if game.game == "canaries"
        else f"the measured {game.excess:.6g} times the promised sensitivity"
    )
    if game.games_needed is None:
        return f"No feasible number of scores would show {what}: the promise leaves that much room."
    return (
        f"{count(game.n_scores)} scores show {what} with probability {game.chance:.3f}; probability"
        f" 0.95 takes {count(2 * game.draws_needed if game.draws_needed else None)}, so"
        f" {count(game.games_needed)} repetitions."
    )


def method_sentences(result: TrainingAttackResult) -> tuple[str, ...]:
    """What was repeated, and what the numbers rest on.

    Args:
        result: The attack.

    Returns:
        Sentences.
    """
    first = result.games[0]
    length = "C" if result.direction == "dirac" else "100 C, so that clipping has to act"
    absent = "absent" if result.relation == "add_or_remove_one" else "replaced by its opposite"
    found = [
        f"{count(first.n_games)} times all {result.steps} steps were repeated by the run's own"
        f" sampler ({result.sampler}), clipping, summation, noise, divisor and loop, with"
        f" {counted(first.n_canaries, 'canary').replace('canarys', 'canaries')} of gradient length"
        f" {length}, each in a coordinate of its own, and each present or {absent} by a fair coin."
        " The model was not run.",
        "The attacker sees every noisy sum and scores each canary twice: by the log-likelihood"
        " ratio of its presence under the promised mechanism, summed over the steps, and by the"
        " spread of its sums over the steps, which shows noise that is used again.",
        "Every other score chose the threshold, the rest judged it, by exact binomial bounds. A"
        f" promise that holds is refuted with probability {result.significance:g} at most.",
    ]
    if first.n_canaries > 1:
        found.append(
            "Canaries of one repetition are independent if the run is what it says; --canaries 1"
            " assumes nothing of that."
        )
    if first.ratio < 1 - 1e-9:
        found.append(
            f"The run is charged for coupled records: a canary moves the sum by {first.ratio:.3g}"
            " of what is promised, so the canaries alone test little of it."
        )
    found += [_pair_words(game, result) for game in result.games if game.game == "pair"]
    found.append(
        "Noise and draws come from seeded generators here. Not tested: the secure generator, the"
        " model's gradients, and whatever the run lets out beside its noisy sums."
    )
    return tuple(found)


def speed(game: GameFinding) -> float:
    """Scores a second of one process.

    Args:
        game: The game.

    Returns:
        The speed.
    """
    return game.n_scores / game.seconds if game.seconds else 0.0


def _pair_words(game: GameFinding, result: TrainingAttackResult) -> str:
    """What the pair was."""
    ratio = in_clip_norms(game.ratio) if game.ratio else "0"
    return (
        f"The pair: clipped sums of an audit on {game.stack}, {ratio} apart. All others are in each"
        f" of the {result.steps} steps and the record enters as the run draws it; the parameters"
        " are those of the audit in every step. Noise was added"
        f" {'along their difference alone' if game.n_params == 1 else 'to every coordinate'}."
    )


def _promise(result: TrainingAttackResult) -> str:
    """The promised mechanism in words."""
    parts = mechanisms_of(result.event)
    if len(parts) == 1 and isinstance(parts[0], PoissonGaussianEvent):
        return (
            f"{counted(result.steps, 'step')} with noise {parts[0].noise_multiplier:.4g} C and"
            f" Poisson rate {parts[0].sampling_prob:.4g}"
        )
    return f"{counted(result.steps, 'step')} with the {result.sampler} sampler"


def _upper(text: str) -> str:
    """With a capital."""
    return text[0].upper() + text[1:]

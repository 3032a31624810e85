"""An attack on a training run as a page: answer first, then curve, point, scores, how to repeat."""

from insular.audit.training.results import TrainingAttackResult, TrainingVerdict
from insular.evidence import RunManifest
from insular.recipes._numbers import cited, place, short
from insular.recipes._page_parts import framed_page
from insular.recipes.attack.release._words import KINDS, confidence
from insular.recipes.attack.training._words import (
    GAMES,
    chance_sentence,
    epsilon_sentence,
    method_sentences,
    speed,
    verdict_sentences,
)
from insular.reports import (
    Figure,
    Page,
    Points,
    Section,
    Table,
    TradeoffPoint,
    paragraph,
    tradeoff_figure,
)

_WORDS: dict[TrainingVerdict, str] = {
    "refuted": "Refuted: the run tells more than it promises",
    "not refuted": "Not refuted",
    "undecided": "Undecided: too few scores",
}


def training_page(result: TrainingAttackResult, manifest: RunManifest) -> Page:
    """Turn an attack on a training run into the content of a page.

    Guarantees:
        * The first paragraphs say which promise was tested, and what each game says of it.
        * The curve and the single point are told apart, and the lower bound on epsilon stands
          beside the promised one.

    Args:
        result: What was found; written beside the page as ``results.json``.
        manifest: The run that found it.

    Returns:
        The page, for :func:`insular.reports.render`.
    """
    return framed_page(
        manifest,
        title=f"Training attack on {result.run}",
        verdict=_WORDS[result.verdict],
        verdict_kind=KINDS[result.verdict],
        lead=verdict_sentences(result),
        sections=(
            _curve(result),
            _point(result),
            _scores(result),
        ),
        method=("What was repeated, and what it rests on", method_sentences(result)),
        speeds=(
            (GAMES[game.game], f"{speed(game):.0f} scores a second and process")
            for game in result.games
        ),
        private="No record was read.",
    )


def _curve(result: TrainingAttackResult) -> Section:
    """The bound on the whole curve, for each game."""
    rows = tuple(
        (
            GAMES[game.game],
            cited(f"{game.tradeoff.fpr.upper:.5f}", "games", i, "tradeoff/fpr/upper"),
            cited(f"{game.tradeoff.tpr.lower:.5f}", "games", i, "tradeoff/tpr/lower"),
            cited(f"{game.allowed_rate:.5f}", "games", i, "allowed_rate"),
            "refuted" if game.curve_refuted else "not refuted",
        )
        for i, game in enumerate(result.games)
    )
    table = Table(
        caption="An attacker whose point lies above the promised curve refutes all of it.",
        columns=("Game", "False positives at most", "True positives at least", "Allowed",
                 "Verdict"),
        rows=rows,
        numeric=(1, 2, 3),
        source=place("games"),
    )  # fmt: skip
    sure = confidence(result.games[0].tradeoff.significance)
    text = paragraph(
        "The steps together promise a curve: at each false positive rate, the most that an attacker"
        f" who sees every noisy sum may find. Both rates are exact bounds on held-out scores,"
        f" {sure} sure."
    )
    blocks = (text, table, *_drawings(result))
    return Section(heading="The whole trade-off curve", blocks=blocks)


def _drawings(result: TrainingAttackResult) -> tuple[Figure, ...]:
    """The promised curve with the attacker's point, for each game."""
    claim = result.claim
    found = []
    for i, game in enumerate(result.games):
        rate = game.tradeoff.fpr.upper
        rows = [
            TradeoffPoint(curve="promised", false_positive_rate=x, true_positive_rate=y)
            for x, y in (
                *zip(claim.false_positive_rates, claim.true_positive_rates, strict=True),
                (rate, game.allowed_rate),
            )
        ]
        rows.sort(key=lambda row: row.false_positive_rate)
        rows.append(
            TradeoffPoint(
                curve=f"proven: {GAMES[game.game]}",
                false_positive_rate=rate,
                true_positive_rate=game.tradeoff.tpr.lower,
            )
        )
        found.append(
            Figure(
                svg=tradeoff_figure(rows, marked=rate),
                caption=f"{GAMES[game.game].capitalize()}: the proven point and the promise.",
                alt=(
                    f"At false positive rate {rate:.4f} the attacker finds at least"
                    f" {game.tradeoff.tpr.lower:.4f}; promised are at most {game.allowed_rate:.4f}."
                ),
                source=place("games", i, "tradeoff"),
            )
        )
    return tuple(found)


def _point(result: TrainingAttackResult) -> Section:
    """The bound at the promised delta."""
    rows = tuple(
        (
            GAMES[game.game],
            short(game.point.delta),
            cited(f"{game.point.epsilon_lower_bound:.4f}", "games", i, "point/epsilon_lower_bound"),
            cited(f"{game.claimed_epsilon:.4f}", "games", i, "claimed_epsilon"),
            cited(f"{game.largest_epsilon:.4f}", "games", i, "largest_epsilon"),
            cited(f"{game.point.p.count}/{game.point.p.n}", "games", i, "point/p"),
            cited(f"{game.point.q.count}/{game.point.q.n}", "games", i, "point/q"),
            "refuted" if game.point_refuted else "not refuted",
        )
        for i, game in enumerate(result.games)
    )
    table = Table(
        caption="Epsilon in nats: proven from below, promised from above.",
        columns=("Game", "Delta", "At least", "Promised", "Most provable", "Counts of one side",
                 "Of the other", "Verdict"),
        rows=rows,
        numeric=(1, 2, 3, 4, 5, 6),
        source=place("games"),
    )  # fmt: skip
    sentences = Points(items=tuple(epsilon_sentence(game) for game in result.games))
    return Section(heading="The one point (epsilon, delta)", blocks=(sentences, table))


def _scores(result: TrainingAttackResult) -> Section:
    """How many scores there were, and how many it takes."""
    rows = tuple(
        (
            GAMES[game.game],
            str(shard.shard + 1),
            cited(str(shard.n_games), "games", i, "shards", j, "n_games"),
            cited(str(shard.n_without), "games", i, "shards", j, "n_without"),
            cited(str(shard.n_with), "games", i, "shards", j, "n_with"),
            shard.digest_without[:12],
            shard.digest_with[:12],
        )
        for i, game in enumerate(result.games)
        for j, shard in enumerate(game.shards)
    )
    table = Table(
        caption="Every shard with the digests of its scores.",
        columns=("Game", "Shard", "Repetitions", "Scores without", "With", "Digest without",
                 "With"),
        rows=rows,
        numeric=(1, 2, 3, 4),
        folded=True,
        source=place("games"),
    )  # fmt: skip
    sentences = Points(items=tuple(chance_sentence(game) for game in result.games))
    return Section(heading="Scores", blocks=(sentences, table))

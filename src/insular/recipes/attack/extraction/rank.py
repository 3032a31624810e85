"""The rank of one planted secret: among all of its space, or among candidates drawn from it."""

from hashlib import sha256

import numpy as np

from insular.audit.secrets.exposure import exposure_interval
from insular.audit.secrets.planted import PlannedSecret, SecretTemplate
from insular.audit.secrets.results import SecretRank
from insular.models.loading import Decoder
from insular.recipes.attack.extraction.scores import (
    TIE_NATS,
    Placed,
    SpelledSpace,
    TokenScore,
    place_secret,
    score_tokens,
    spell_space,
)
from insular.recipes.attack.extraction.spec import ExtractionSpec


def rank_secret(
    decoder: Decoder, template: SecretTemplate, secret: PlannedSecret, spec: ExtractionSpec
) -> SecretRank:
    """Find how many of the space are likelier than a secret, and whether it can be decoded.

    Guarantees:
        * With ``auto``, a secret that the model does not know has a share of q or less with
          probability q at most, whichever way it was ranked: an exact rank is looked for only
          where a sampled one is in front, and where that takes too much the whole front ties.

    Args:
        decoder: The model.
        template: The sentence.
        secret: The secret.
        spec: How to rank.

    Returns:
        Its rank.
    """
    prompt = template.prompt(secret.name)
    value = template.space.value_of(secret.secret)
    spelled = spell_space(decoder, prompt, template.space)
    if spelled is None:
        return _sampled_whole(decoder, template, secret, spec)
    row = [*spelled.prompt, *spelled.tokens(value)]
    (score,) = score_tokens(decoder, [row], given=[len(spelled.prompt)])
    exact = spec.rank == "exact" or (spec.rank == "auto" and _prefixes(spelled) <= spec.prefixes)
    if exact:
        placed = place_secret(decoder, spelled, value, score=score.log_likelihood_nats)
        return _rank(secret, template, score, placed, n_candidates=spelled.size)
    candidates = np.sort(_draw(secret, template, spec))
    placed = place_secret(
        decoder, spelled, value, score=score.log_likelihood_nats, candidates=candidates
    )
    front = spec.candidates // 100
    if spec.rank == "sampled" or placed.above + placed.tied > front:
        return _rank(secret, template, score, placed, n_candidates=spec.candidates + 1)
    closer = place_secret(
        decoder,
        spelled,
        value,
        score=score.log_likelihood_nats,
        most_prefixes=spec.prefixes,
    )
    if closer.complete:
        return _rank(secret, template, score, closer, n_candidates=spelled.size)
    return _rank(secret, template, score, placed, n_candidates=spec.candidates + 1, front=front + 1)


def _sampled_whole(
    decoder: Decoder, template: SecretTemplate, secret: PlannedSecret, spec: ExtractionSpec
) -> SecretRank:
    """A sampled rank where the tokeniser joins symbols: every candidate is scored by itself."""
    prompt, space = template.prompt(secret.name), template.space
    values = _draw(secret, template, spec).tolist()
    texts = [prompt + secret.secret, *(prompt + space.spell(value) for value in values)]
    rows = [decoder.encode(text) for text in texts]
    given = max(1, _shared(rows, decoder.encode(prompt)))
    score, *others = score_tokens(decoder, rows, given=[given] * len(rows))
    gaps = np.array([other.log_likelihood_nats for other in others]) - score.log_likelihood_nats
    own = np.array(values) == space.value_of(secret.secret)
    placed = Placed(
        above=int(((gaps > TIE_NATS) & ~own).sum()),
        tied=int(((np.abs(gaps) <= TIE_NATS) | own).sum()),
        n_prefixes=len(rows),
        met_nats=None,
        complete=True,
    )
    return _rank(secret, template, score, placed, n_candidates=spec.candidates + 1)


def _rank(
    secret: PlannedSecret,
    template: SecretTemplate,
    score: TokenScore,
    placed: Placed,
    *,
    n_candidates: int,
    front: int = 0,
) -> SecretRank:
    """The counts as a rank; ``front`` candidates tie at least, if given."""
    lowest = 1 + placed.above
    highest = max(lowest + placed.tied, 1 + front if front else 0)
    size = template.space.size
    met, score_nats = placed.met_nats, score.log_likelihood_nats
    return SecretRank(
        id=secret.id,
        repeats=secret.repeats,
        method="exact" if n_candidates == size else "sampled",
        n_candidates=n_candidates,
        rank_lowest=lowest,
        rank_highest=highest,
        tie_nats=TIE_NATS,
        exposure_interval=exposure_interval(
            lowest, highest, n_candidates=n_candidates, space_size=size
        ),
        log_likelihood_nats=score_nats,
        greedy=score.greedy,
        n_prefixes=placed.n_prefixes,
        drift_nats=None if met is None else abs(met - score_nats),
    )


def _draw(secret: PlannedSecret, template: SecretTemplate, spec: ExtractionSpec) -> np.ndarray:
    """Candidates of one secret, even over the space, by its id and the seed alone."""
    word = f"candidates {spec.seed} {secret.id}".encode()
    rng = np.random.default_rng(int.from_bytes(sha256(word).digest()[:8], "big"))
    return rng.integers(template.space.size, size=spec.candidates)


def _prefixes(space: SpelledSpace) -> int:
    """Forwards that an exact rank takes at most."""
    return sum(len(space.symbols) ** depth for depth in range(space.length))


def _shared(rows: list[list[int]], prompt: list[int]) -> int:
    """Tokens of the prompt with which every row begins."""
    shared = len(prompt)
    for row in rows:
        same = 0
        for one, two in zip(row[:-1], prompt[:shared], strict=False):
            if one != two:
                break
            same += 1
        shared = same
    return shared

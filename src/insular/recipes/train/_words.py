"""What a training run protects, whom, where and with what, in words."""

from insular.accounting import NoiseSource, Relation
from insular.accounting.events import mechanisms_of
from insular.errors import InvalidArgumentError
from insular.recipes._numbers import amount, cited, counted, short
from insular.recipes.audit._words import ended
from insular.recipes.budget._words import upper
from insular.recipes.train.results import TrainResult
from insular.reports import Code, Inline, Number, Paragraph, paragraph
from insular.training.results import SamplerFacts

_SAMPLERS = {
    "poisson": "Poisson sampling",
    "truncated_poisson": "truncated Poisson sampling",
    "shuffled": "shuffled batches",
    "full_batch": "full batches, without sampling",
}


def pair(result: TrainResult) -> tuple[Inline, ...]:
    """Epsilon, rounded up, and delta as they are written: (3.00, 1e-5)."""
    return (
        "(",
        cited(upper(result.epsilon, 3), "costs", 0, "epsilon"),
        ", ",
        cited(short(result.delta), "delta"),
        ")",
    )


def noise_sources(result: TrainResult) -> tuple[NoiseSource, ...]:
    """Where the noise of what ran came from, by the log and by the accountant."""
    found: dict[NoiseSource, None] = {}
    for mechanism in mechanisms_of(result.executed.event):
        found[mechanism.noise_source] = None
    for cost in result.costs:
        found.update(dict.fromkeys(cost.noise_sources))
    return tuple(found)


def neighbours(relation: Relation, unit: str) -> str:
    """Which data sets are neighbours."""
    if relation == "add_or_remove_one":
        return f"one {unit} more or less"
    return f"one {unit} replaced by another"


def sampler_parts(sampler: SamplerFacts, unit: str) -> tuple[Inline, ...]:
    """The planned sampler with its public parameters, each with its place."""
    drawn = "record" if sampler.records_per_unit is not None else unit

    def number(name: str) -> Number:
        value = getattr(sampler, name)
        text = short(value) if isinstance(value, float) else str(value)
        return cited(text, "planned", "sampler", name)

    parts: list[Inline] = [f"{_SAMPLERS[sampler.kind]} from ", number("n_units"), f" {drawn}s"]
    if sampler.sampling_prob is not None:
        parts += [", with probability ", number("sampling_prob")]
    if sampler.max_batch_size is not None:
        parts += [", at most ", number("max_batch_size"), " kept"]
    if sampler.slots is not None:
        parts += [", ", number("slots"), " batches a pass"]
    if sampler.records_per_unit is not None:
        parts += [", each owner a group of at most ", number("records_per_unit"), " records"]
    return tuple(parts)


def unit_words(result: TrainResult) -> tuple[Inline, ...]:
    """Whose presence is hidden."""
    if not result.owner_field:
        return (f"each {result.unit}",)
    return (f"each {result.unit} (field ", Code(text=result.owner_field), ")")


def protected_sentence(result: TrainResult, *, protects: bool) -> Paragraph:
    """Unit, neighbours, sampler and noise."""
    planned = result.planned
    multiplier = cited(amount(planned.noise_multiplier), "planned", "noise_multiplier")
    return paragraph(
        "Protected is " if protects else "Meant to be protected was ",
        *unit_words(result),
        f": neighbouring data sets differ by {neighbours(result.relation, result.unit)}. Drawn by ",
        *sampler_parts(planned.sampler, result.unit),
        "; noise multiplier ",
        multiplier,
        f", generator: {ended(result.noise)}",
    )


def path_sentence(result: TrainResult) -> Paragraph:
    """The path that the isolation verdict holds for; the whole of it stands further down."""
    found = result.isolation
    start = {
        "isolated": "Records were found apart on this path and no other: ",
        "coupled": "Records were found coupled on this path: ",
        "undecided": "The audit could not decide on this path: ",
    }[found.verdict]
    device, semicolon, rest = found.path.partition("; operators")[0].partition(";")
    return paragraph(
        start,
        cited(device, "isolation", "path"),
        f"{semicolon}{rest}. A CPU verdict says nothing of CUDA."
        if device.startswith("cpu")
        else f"{semicolon}{rest}. A verdict on this device says nothing of another.",
    )


def not_covered(result: TrainResult) -> Paragraph:
    """What the guarantee is not about."""
    return paragraph(
        "Not covered: what the base model ",
        Code(text=result.model),
        " learnt before; telemetry, log, checkpoint and this page, which are private; settings"
        " chosen by looking at other runs on this text.",
        *_shared_texts(result),
    )


def _shared_texts(result: TrainResult) -> tuple[Inline, ...]:
    """Texts that stay when one unit is taken away."""
    n = result.data.duplicates_across_owners
    if n == 0:
        return ()
    return (
        " ",
        cited(counted(n, "text"), "data", "duplicates_across_owners"),
        f" {'is' if n == 1 else 'are'} {shared_by(result.unit)}: what such a text says is not"
        " hidden.",
    )


def shared_by(unit: str) -> str:
    """Where a text is that one unit's removal does not remove."""
    return "in more than one record" if unit == "record" else f"in the data of more than one {unit}"


def linked(text: str, source: str) -> Inline:
    """A file as a link, or as code where its name is no link within the run."""
    try:
        return Number(text=text, source=source)
    except InvalidArgumentError:
        return Code(text=text)

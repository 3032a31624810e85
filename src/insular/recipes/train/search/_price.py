"""The arithmetic of a search's price: one run, all runs, and repeating and selecting."""

from insular.accounting import PrivacyCost
from insular.accounting.events import parts_of
from insular.recipes._numbers import amount, cited, counted, place, short
from insular.recipes.budget._words import cost_row, likelihood, neighbours
from insular.recipes.train.search._words import law_words, thousandths
from insular.recipes.train.search.results import SearchResult
from insular.reports import Block, Cell, Facts, Paragraph, Section, Table, paragraph


def price_section(result: SearchResult, *, protects: bool) -> Section:
    """The three prices side by side, and why the search's is the promise."""
    blocks: list[Block] = [_facts(result), _prices(result), _why(result)]
    if not protects:
        blocks.append(
            paragraph("These numbers are what the accountants compute, and no promise: see above.")
        )
    elif result.cost.relation and result.cost.unit:
        blocks.append(
            paragraph(
                likelihood(
                    result.epsilon,
                    result.delta,
                    relation=result.cost.relation,
                    unit=result.cost.unit,
                )
            )
        )
    return Section(heading="The price", blocks=tuple(blocks))


def _facts(result: SearchResult) -> Facts:
    """What the prices are computed from."""
    cost, event = result.cost, result.event
    releases = sum(count for _, count in parts_of(event.event))
    target: Cell = "none: the noise was given"
    if result.target_epsilon is not None:
        target = cited(short(result.target_epsilon), "target_epsilon")
    pairs: list[tuple[str, Cell]] = [
        ("Target epsilon", target),
        ("Delta", (cited(short(result.delta), "delta"), f"; {result.delta_reason}")),
        ("One run", (cited(counted(releases, "release"), "event", "event"), ", noise multiplier ",
                     cited(amount(result.noise_multiplier), "noise_multiplier"))),
        ("Sampler", cited(cost.sampler, "cost", "sampler")),
        ("Number of runs", (f"random, {law_words(event.shape)}, mean ",
                            cited(amount(event.mean_runs), "event", "mean_runs"))),
    ]  # fmt: skip
    if cost.relation and cost.unit:
        pairs.insert(2, ("Neighbours", neighbours(cost.relation, cost.unit)))
    return Facts(pairs=tuple(pairs), source="results.json")


def _prices(result: SearchResult) -> Table:
    """One run, all of them, the search."""
    rows = [
        _row("One run, had there been no choice", result.one_run, "one_run"),
        _row("The search: repeat, and select the best", result.cost, "cost"),
    ]
    if result.all_runs is not None:
        n = counted(len(result.runs), "run")
        words = f"To publish all {n}, by plain composition"
        rows.insert(1, _row(words, result.all_runs, "all_runs"))
    return Table(
        caption="Epsilon in nats, rounded up. The last row is what the kept adapter and a ledger"
        f" are charged; computed by {result.cost.version}.",
        columns=("What", "Epsilon", "Accountant", "Standing", "How"),
        rows=tuple(rows),
        numeric=(1,),
        source=place("cost"),
    )


def _row(what: str, cost: PrivacyCost, field: str) -> tuple[Cell, ...]:
    """One price."""
    name, _, standing, method = cost_row(cost)
    return what, cited(thousandths(cost.epsilon), field, "epsilon"), name, standing, method


def _why(result: SearchResult) -> Paragraph:
    """Why the price does not follow the number that was drawn."""
    words = (
        "The noise of every run was raised until repeating and selecting keeps the target. "
        if result.target_epsilon is not None
        else ""
    )
    words += (
        "The price is that of the law and not of the number that it gave: it holds because the"
        " number was drawn without the data and stays hidden"
    )
    if result.all_runs is not None and result.all_runs.epsilon < result.epsilon:
        words += (
            ". That plain composition of the runs that were drawn is less is chance, and no cheaper"
            " promise: it would tell their number"
        )
    return paragraph(f"{words} (Papernot and Steinke 2022).")

"""Layers before any release, as one section of a page."""

from collections.abc import Sequence

from insular.recipes._numbers import cited, counted, place
from insular.recipes.hidden.sweep._words import share
from insular.recipes.hidden.sweep.results import LayerResult
from insular.reports import Block, Cell, Points, Section, Table


def layers_section(layers: Sequence[LayerResult]) -> Section:
    """Geometry of each layer, beside null and halves.

    Args:
        layers: What was measured; ``layers`` in ``results.json``.

    Returns:
        A section.
    """
    rows: list[tuple[Cell, ...]] = []
    for i, layer in enumerate(layers):
        rank = layer.geometry.rank
        for name, words in (
            (
                "fisher_energy",
                f"E_{rank}: share of what the model reads in its top {rank} directions",
            ),
            ("coupling", "coupling: how much prompts differ there, over a random subspace"),
            ("effective_rank", "r_95/d: share of directions that hold 95% of what it reads"),
            ("euclidean_gain", "most gain over isotropic noise, plain attacker"),
            ("adaptive_gain", "G_mah: the same, aware attacker"),
            ("projector_bound", "least G_mah that goes with this E and coupling"),
        ):
            number = getattr(layer.geometry, name)
            rows.append(
                (
                    str(layer.layer),
                    words,
                    cited(f"{number.value:.3g}", "layers", i, "geometry", name, "value"),
                    f"{number.halves[0]:.3g}, {number.halves[1]:.3g}",
                    f"{number.null.mean:.3g} ({number.null.lowest:.3g} to "
                    f"{number.null.highest:.3g})",
                    "yes" if number.beyond_null else "no",
                )
            )
    table = Table(
        caption=(
            "Each number beside itself on two halves of the prompts (E with the directions of the "
            "other half), and on simulated states and gradients of the same number and lengths "
            "without structure (the null). A number within its null says nothing of the model."
        ),
        columns=("Layer", "Number", "Value", "Split halves", "Null", "Beyond it"),
        rows=tuple(rows),
        numeric=(0, 2),
        source=place("layers"),
    )
    return Section(heading="Layers before any release", blocks=(table, *_facts(layers)))


def _facts(layers: Sequence[LayerResult]) -> tuple[Block, ...]:
    """First tokens, massive coordinates, and the gain that would be needed."""
    items = []
    for layer in layers:
        facts, geometry = layer.facts, layer.geometry
        other = facts.other_token_norm
        first = "" if other is None else (
            f"; the first token's state is {facts.first_token_norm / other:.1f} times as long as "
            "others"
        )  # fmt: skip
        needed = ", ".join(f"{gain:,.0f} at {kl:g} nats" for kl, gain in layer.gain_needed)
        items.append(
            f"Layer {layer.layer}: to hide prompts, noise of the same KL must hide them better "
            f"than isotropic noise by a factor of {needed}; the best shape gains a factor of "
            f"{geometry.adaptive_gain.value:.1f} on average. "
            f"{counted(len(facts.massive), 'massive coordinate')}{first}; the longest 1% of the "
            f"gradients carry {share(geometry.heaviest_gradients_share)} of what the model reads."
        )
    return (Points(items=tuple(items)),)

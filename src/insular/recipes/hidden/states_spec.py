"""What decides the states of a run, as the folder that holds them says it. Torch-free."""

from dataclasses import dataclass, fields
from typing import Literal, final

from insular.recipes.hidden.spec import SweepSpec


@final
@dataclass(frozen=True, kw_only=True)
class StatesSpec:
    """What decides the states: runs that agree on it share a folder."""

    model: str
    """As for the sweep, like all fields."""
    layers: tuple[int, ...]
    """Outputs of these blocks."""
    text: str
    """Where prompts come from."""
    text_field: str
    """Column with the text."""
    id_field: str
    """Column with ids."""
    encoding: str
    """Of a text file."""
    tokens: int
    """Longest prompt."""
    bank: int
    """Candidates."""
    fit: int
    """Prompts to fit on."""
    labels: int
    """Labels drawn for each of these."""
    calibration: int
    """Prompts left for the scale; they decide which are in the other roles."""
    dtype: Literal["float32", "bfloat16"]
    """What the model computes in."""
    attention: str
    """Attention kernel."""
    device: str
    """Where the model ran."""
    batch_tokens: int
    """Tokens of one forward."""
    seed: int
    """Roles and labels follow from it."""


def states_spec(spec: SweepSpec) -> StatesSpec:
    """The part of a sweep's settings that decides its states.

    Args:
        spec: The sweep.

    Returns:
        That part.
    """
    return StatesSpec(**{field.name: getattr(spec, field.name) for field in fields(StatesSpec)})

"""What was published for the same model, to stand beside our own numbers."""

from typing import Literal

from insular.reports import Paragraph, paragraph

Topic = Literal["sensitivity", "census", "localisation"]
_SOURCE = "Published for OPT-125M (Zhang et al. 2026, arXiv 2611.01411): "
_OPT_125M: dict[Topic, str] = {
    "sensitivity": "a largest ratio of 1.0653 over 64 candidates, of which 10 exceed the bound.",
    "census": "4.8% of the pairs altered at 2 records on the device and 20.1% at 16; there 7.0% of"
    " the columns foreign; 1.5 to 7.5% of the correction work saved.",
    "localisation": "one union of 72 changed, by one column, in the first feed-forward layer of"
    " decoder layer 6.",
}


def published(model: str, topic: Topic) -> tuple[Paragraph, ...]:
    """The published numbers on a topic, or nothing for a model that has none."""
    return (paragraph(_SOURCE + _OPT_125M[topic]),) if "opt-125m" in model.lower() else ()

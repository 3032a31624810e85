"""A figure as a file of its own, which has no page to take its colours from."""

import re

_LOOK = (
    '<style>svg{color:#1a1a1a;background:#fff}@media(prefers-color-scheme:dark){svg{color:#e4e4e4;'
    "background:#16181b;--figure-paper:#16181b;--figure-soft:#aaa;--figure-line:#444}}</style>"
)  # fmt: skip


def stand_alone(svg: str) -> str:
    """Give a figure its own colours, in light and dark.

    Args:
        svg: An ``<svg>`` element made for a page.

    Returns:
        The content of an SVG file.
    """
    return re.sub(r"(<svg[^>]*>)", rf"\1{_LOOK}", svg, count=1)

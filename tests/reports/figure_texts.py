"""Where the texts of a drawing stand, measured with the font that it is drawn in."""

import re
from html import unescape

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

_TEXT = re.compile(r"<text ([^>]*)>([^<]*)</text>")
_FONT = FontProperties(family="DejaVu Sans")


def texts(svg: str) -> list[str]:
    """Every text, as it is read."""
    return [unescape(text) for _, text in _TEXT.findall(svg)]


def boxes(svg: str) -> list[tuple[str, float, float, float, float]]:
    """Each text with left, top, right and bottom of its ink."""
    found = []
    for attributes, text in _TEXT.findall(svg):
        text = unescape(text)
        size = float(re.search(r"font-size: ([\d.]+)px", attributes)[1])
        ink = TextPath((0, 0), text.replace("$", r"\$"), size=size, prop=_FONT).get_extents()
        move = re.search(r"translate\(([\d.-]+) ([\d.-]+)\)", attributes)
        place = move or re.search(r'x="([\d.-]+)" y="([\d.-]+)"', attributes)
        x, y = float(place[1]), float(place[2])
        anchor = re.search(r"text-anchor: (\w+)", attributes)
        shift = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor[1] if anchor else "start"]
        left, right = ink.x0 - shift * ink.x1, ink.x1 - shift * ink.x1
        if "rotate(-90" in attributes:
            found.append((text, x - ink.y1, y - right, x - ink.y0, y - left))
        else:
            found.append((text, x + left, y - ink.y1, x + right, y - ink.y0))
    return found


def unreadable(svg: str) -> list[str]:
    """Texts that leave the drawing or stand on another one."""
    wide, high = map(float, re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups())
    placed = boxes(svg)
    bad = [
        f"{text} leaves the drawing"
        for text, left, top, right, bottom in placed
        if left < -1 or top < -1 or right > wide + 1 or bottom > high + 1
    ]
    for i, (text, *a) in enumerate(placed):
        for other, *b in placed[:i]:
            across = min(a[2], b[2]) - max(a[0], b[0])
            down = min(a[3], b[3]) - max(a[1], b[1])
            if across > 0.5 and down > 0.5:
                bad.append(f"{text} stands on {other}")
    return bad

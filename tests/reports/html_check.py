"""Reads a page as a strict parser would, and collects what matters."""

from html.parser import HTMLParser

_VOID = {"meta", "wbr", "br"}


class Checked(HTMLParser):
    """Every tag closed in order, every id once, every footnote there, no handler."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)
        for link in self.links:
            assert not link.startswith("#") or link[1:] in self.ids

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in _VOID:
            self.open.append(tag)
        for key, value in attrs:
            assert not key.startswith("on")
            assert key not in ("src", "srcset", "background")
            if key == "id":
                self.ids.append(value)
            if key in ("href", "xlink:href"):
                self.links.append(value)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data

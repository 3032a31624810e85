"""A page in a headless browser."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def scroll_width(page: str, folder: Path, *, width: int) -> int:
    """How wide a page is in a frame of some width, with everything folded open."""
    page = page.replace("<details>", "<details open>")
    frame = folder / "frame.html"
    escaped = page.replace("&", "&amp;").replace('"', "&quot;")
    frame.write_text(
        f'<iframe id="f" style="width:{width}px;height:800px;border:0" srcdoc="{escaped}"></iframe>'
        "<script>onload = () => { document.title = 'width ' + document.getElementById('f')"
        ".contentDocument.documentElement.scrollWidth + '.' }</script>",
        encoding="utf-8",
    )
    assert CHROMIUM is not None
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
    dom = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={folder}/profile", "--dump-dom", frame.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    found = re.search(r"<title>width (\d+)\.", dom)
    assert found is not None
    return int(found[1])

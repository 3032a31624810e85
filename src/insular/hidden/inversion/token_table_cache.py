"""Token tables in the cache: by model, layer, arithmetic and calibration text."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from insular.errors import EvidenceError
from insular.evidence import write_atomic
from insular.hidden.inversion.token_table import Progress, TokenTable, build_token_tables, table_key
from insular.hidden.states.forward import SplitDecoder
from insular.records.packaged import cache_folder
from insular.records.tokens import TokenisedRecord

_KEY = "insular token table"
_TENSORS = ("first", "table", "shift", "covariance", "influence", "centre", "uninfluenced")


def cached_token_tables(
    decoder: SplitDecoder,
    calibration: Sequence[TokenisedRecord],
    *,
    layers: Sequence[int],
    model_digest: str,
    progress: Progress | None = None,
) -> dict[int, TokenTable]:
    """The tables of some layers; those that the cache lacks are built together.

    Guarantees:
        * A table of another model, layer, arithmetic or calibration text is never returned.
        * A file appears whole or not at all; a damaged one is built again.

    Args:
        decoder: The decoder.
        calibration: Public text.
        layers: The layers.
        model_digest: Digest of the model's files.
        progress: Called now and then.

    Returns:
        Layer to table.
    """
    paths: dict[int, Path] = {}
    found: dict[int, TokenTable] = {}
    for layer in layers:
        key = table_key(decoder, layer=layer, model_digest=model_digest, calibration=calibration)
        paths[layer] = table_path(model_digest, layer=layer, key=key)
        if paths[layer].is_file():
            with suppress(EvidenceError):  # damaged: built again below
                found[layer] = load_token_table(paths[layer], key=key)
    missing = [layer for layer in layers if layer not in found]
    if not missing:
        return found
    if progress is not None:
        names = f"layer{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        progress(f"building the token table of {names} once, into {paths[missing[0]].parent}")
    built = build_token_tables(
        decoder, calibration, layers=missing, model_digest=model_digest, progress=progress
    )
    for layer, table in built.items():
        save_token_table(table, paths[layer])
    return found | built


def table_path(model_digest: str, *, layer: int, key: str) -> Path:
    """Where a table is cached.

    Args:
        model_digest: Digest of the model's files.
        layer: The layer.
        key: Of the table.

    Returns:
        The path; it need not exist.
    """
    return cache_folder() / "tables" / model_digest[:32] / f"layer-{layer}-{key[:12]}.safetensors"


def save_token_table(table: TokenTable, path: Path) -> None:
    """Write a table, whole or not at all.

    Args:
        table: The table.
        path: The file.

    Raises:
        EvidenceError: If it cannot be written.
    """
    from safetensors.torch import save

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EvidenceError(
            f"cannot make {path.parent}: {error.strerror}; set INSULAR_CACHE to a folder that can "
            "be written."
        ) from error
    header = {"layer": table.layer, "rounding": table.rounding, "key": table.key}
    tensors = {name: getattr(table, name).cpu().contiguous() for name in _TENSORS}
    write_atomic(path, save(tensors, {_KEY: json.dumps(header)}))


def load_token_table(path: Path, *, key: str) -> TokenTable:
    """Read a table.

    Args:
        path: What ``save_token_table`` wrote.
        key: Which table it must be.

    Returns:
        The table.

    Raises:
        EvidenceError: If it is damaged or another one.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()[_KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if header["key"] != key:
                raise EvidenceError(f"{path} is the table of another model, layer or text.")
            return TokenTable(
                layer=header["layer"], rounding=header["rounding"], key=key, **tensors
            )
    except EvidenceError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise EvidenceError(
            f"{path} is no token table that this version reads ({type(error).__name__}); delete it."
        ) from error

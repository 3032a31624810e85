"""Token tables in the cache: by model, layer, arithmetic and calibration text."""

import json
from collections.abc import Sequence
from pathlib import Path

from insular.errors import EvidenceError
from insular.evidence import write_atomic
from insular.hidden.forward import SplitDecoder
from insular.hidden.inversion.token_table import Progress, TokenTable, build_token_tables, table_key
from insular.records.packaged import cache_folder
from insular.records.tokens import TokenisedRecord

_KEY = "insular token table"
_TENSORS = ("first", "table", "shift", "covariance", "influence", "centre", "uninfluenced")


def cached_token_table(
    decoder: SplitDecoder,
    calibration: Sequence[TokenisedRecord],
    *,
    layer: int,
    model_digest: str,
    progress: Progress | None = None,
) -> TokenTable:
    """The table of a layer, built where the cache has none.

    Guarantees:
        * A table of another model, layer, arithmetic or calibration text is never returned.
        * The file appears whole or not at all; a damaged one is built again.

    Args:
        decoder: The decoder.
        calibration: Public text.
        layer: The layer.
        model_digest: Digest of the model's files.
        progress: Called now and then.

    Returns:
        The table.
    """
    key = table_key(decoder, layer=layer, model_digest=model_digest, calibration=calibration)
    path = table_path(model_digest, layer=layer, key=key)
    if path.is_file():
        try:
            return load_token_table(path, key=key)
        except EvidenceError:
            pass  # damaged: built again below
    if progress is not None:
        progress(f"building the token table of layer {layer} once, into {path.parent}")
    (table,) = build_token_tables(
        decoder, calibration, layers=[layer], model_digest=model_digest, progress=progress
    ).values()
    save_token_table(table, path)
    return table


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

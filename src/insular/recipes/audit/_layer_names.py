"""Names of modules as a reader knows them: without what adapters wrap around them."""

from collections.abc import Iterable

_WRAPPER = "base_model.model."
_WRAPPED = ".base_layer"


def plain(module: str) -> str:
    """A module's name without the adapter's prefix and suffix, and without a call's number."""
    return module.partition("#")[0].removeprefix(_WRAPPER).removesuffix(_WRAPPED)


def same_layer(module: str, layer: str) -> bool:
    """Whether two names mean one layer, although one of them may lack the outermost names."""
    one, two = plain(module), plain(layer)
    return one == two or one.endswith(f".{two}") or two.endswith(f".{one}")


def labels(kinds: Iterable[str]) -> dict[str, str]:
    """The last word of each kind of layer, or all of them where two end in the same one."""
    every = dict.fromkeys(kinds)
    last = [kind.rpartition(".")[2] for kind in every]
    return {
        kind: kind if last.count(kind.rpartition(".")[2]) > 1 else kind.rpartition(".")[2]
        for kind in every
    }

"""Where a layer stands in a decoder, from its qualified name."""


def block_of(name: str) -> int | None:
    """Number of the decoder block.

    Args:
        name: Qualified name, such as ``model.layers.3.mlp.down_proj``.

    Returns:
        Its first number, or None outside the blocks.
    """
    return next((int(part) for part in name.split(".") if part.isdecimal()), None)


def kind_of(name: str) -> str:
    """What a layer is in its block.

    Args:
        name: Qualified name, such as ``model.layers.3.mlp.down_proj``.

    Returns:
        What follows the block's number, such as ``mlp.down_proj``; the name outside the blocks.
    """
    parts = name.split(".")
    numbers = [i for i, part in enumerate(parts) if part.isdecimal()]
    return ".".join(parts[numbers[0] + 1 :]) if numbers else name

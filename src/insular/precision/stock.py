"""The stock layers of bitsandbytes: the one place that imports them, without their chatter."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_bitsandbytes() -> Iterator[None]:
    """Silence bitsandbytes' notes: a missing optional kernel, and a cast at each call.

    Yields:
        Nothing.
    """
    logger = logging.getLogger("bitsandbytes")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


with quiet_bitsandbytes():
    from bitsandbytes.nn.modules import Int8Params, Linear4bit, Linear8bitLt, Params4bit

__all__ = ["Int8Params", "Linear4bit", "Linear8bitLt", "Params4bit", "quiet_bitsandbytes"]

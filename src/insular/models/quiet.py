"""Keep third parties from talking while a model loads, and give them their voice back."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Silence logging, warnings and transformers' progress bars inside a ``with`` block.

    Guarantees:
        * Afterwards logging, warning filters and progress bars are as they were.

    Yields:
        Nothing.
    """
    from transformers.utils import logging as hf_logging

    level, bars = logging.root.manager.disable, hf_logging.is_progress_bar_enabled()
    logging.disable(max(level, logging.ERROR))
    hf_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
        if bars:
            hf_logging.enable_progress_bar()

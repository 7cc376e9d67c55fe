"""`messages()`: what the library logs, on stderr while a command runs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def messages() -> Iterator[None]:
    """Shows the log of the zoo, from INFO on; puts its level and handlers back."""
    logger, handler = logging.getLogger("zoo"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("zoo: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)

"""How a refusal must read."""

from __future__ import annotations

import re

import pytest


def refused(call, *patterns: str, error: type[Exception] | tuple[type[Exception], ...] = ValueError) -> str:
    """Runs `call`, which must fail in one sentence or two, on one line, that match every pattern."""
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text, text
    assert text.rstrip().endswith((".", "?", ")", "'", '"')), text
    for pattern in patterns:
        assert re.search(pattern, text), f"{pattern!r} is not in: {text}"
    return text

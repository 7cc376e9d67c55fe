"""What to say about a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], kind: str) -> str:
    """The error text for an unknown word: what was got, the nearest right one, what is allowed.

    Args:
        word: What was given.
        known: The right words.
        kind: What they are: "model", "option", ...
    """
    word, known = str(word), sorted(known)
    lower = {k.lower(): k for k in known}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.5)
    hint = f" Did you mean {lower[close[0]]!r}?" if close else ""
    return f"unknown {kind} {word!r}.{hint} Known: {', '.join(known)}."

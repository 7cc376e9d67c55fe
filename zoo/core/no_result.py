"""The error of a run that was asked for rightly and came to nothing: no draw in its time, no gold by the rules."""

from __future__ import annotations


class NoResult(RuntimeError):
    """There is no result; the message says why, and what to raise. No fault of the zoo's own."""

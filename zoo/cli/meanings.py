"""What a function's docstring says of it and of each of its arguments."""

from __future__ import annotations

import inspect
import re

SECTIONS = re.compile(r"^(Args|Returns|Raises|Yields|Source):", re.MULTILINE)
ARGUMENT = re.compile(r"^    (\w+(?:, \w+)*): ", re.MULTILINE)


def story(doc: str) -> str:
    """The docstring up to its first section."""
    return SECTIONS.split(inspect.cleandoc(doc), maxsplit=1)[0].strip()


def arguments(doc: str) -> dict[str, str]:
    """{argument: what its line under "Args:" says, in one line}; a line may speak of several: "a, b: ..."."""
    named = SECTIONS.split(inspect.cleandoc(doc))
    sections = dict(zip(named[1::2], named[2::2], strict=True))
    parts = ARGUMENT.split("\n" + sections.get("Args", ""))
    said = zip(parts[1::2], parts[2::2], strict=True)
    return {name: " ".join(text.split()) for names, text in said for name in names.split(", ")}

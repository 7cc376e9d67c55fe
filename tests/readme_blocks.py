"""Runs the ```python blocks of a page, in order and in one namespace, and checks what they print.

    python -m tests.readme_blocks README.md

A ```text block right after a ```python block is what that block prints: the same words in the same order
(numbers differ between machines and versions). With ```text exact it is so to the letter.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```[ \t]*$", re.M | re.S)


class Block(NamedTuple):
    """A python block: its first line's number, its code, and what it should print (None: not said)."""

    line: int
    code: str
    printed: str | None
    exact: bool


def blocks(text: str) -> Iterator[Block]:
    """The python blocks of a page, each with the text block that directly follows it."""
    fences = [*_FENCE.finditer(text)]
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        if fence[1].strip() != "python":
            continue
        line = text.count("\n", 0, fence.start()) + 2
        follows = following is not None and following[1].split()[:1] == ["text"]
        # Only blank lines may stand between the code and what it prints.
        if following is not None and follows and not text[fence.end() : following.start()].strip():
            yield Block(line, fence[2], following[2], following[1].split() == ["text", "exact"])
        else:
            yield Block(line, fence[2], None, False)


def words(text: str) -> list[str]:
    """The words of a text without its numbers, frames and spaces; NaN counts as a word."""
    return re.findall(r"[A-Za-z_][A-Za-z_0-9]*", re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", " ", text))


def agree(block: Block, printed: str) -> bool:
    """Whether what was printed is what the page says."""
    if block.printed is None:
        return True
    if block.exact:
        return printed.strip() == block.printed.strip()
    return words(printed) == words(block.printed)


def run(path: Path) -> int:
    """Runs a page's blocks; returns how many there were.

    Raises:
        AssertionError: If a block prints something else than the page says.
    """
    namespace: dict[str, object] = {"__name__": "__main__"}
    found = [*blocks(path.read_text(encoding="utf-8"))]
    for block in found:
        print(f"{path}:{block.line}", flush=True)
        out = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
        with contextlib.redirect_stdout(out):
            exec(code, namespace)
        if not agree(block, out.getvalue()):
            raise AssertionError(f"{path}:{block.line} prints\n{out.getvalue()}\nwhere the page says\n{block.printed}")
    return len(found)


if __name__ == "__main__":
    total = sum(run(Path(name)) for name in sys.argv[1:])
    if not total:
        sys.exit("no python block found")
    print(f"{total} blocks ran and printed what the page says")

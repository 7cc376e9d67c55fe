"""The targets and samplers that there are: every plain file of the two folders is one."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from zoo.core.words import nearest


def names(folder: str) -> list[str]:
    """The files of "targets" or "samplers", in alphabetical order."""
    files = (Path(__file__).parent / folder).glob("*.py")
    return sorted(path.stem for path in files if not path.stem.startswith("_"))


def chosen(folder: str, wanted: str | Iterable[str] | None) -> list[str]:
    """The wanted names without repeats, all where None; "a,b" counts as two.

    Raises:
        ValueError: If one does not exist (the nearest that does is named), and for none at all.
    """
    known = names(folder)
    given = known if wanted is None else [wanted] if isinstance(wanted, str) else list(wanted)
    words = [word.strip() for text in given for word in str(text).split(",") if word.strip()]
    for word in words:
        if word not in known:
            raise ValueError(nearest(word, known, folder.removesuffix("s")))
    if not words:
        raise ValueError(f"animate needs at least one of the {folder}: {', '.join(known)}. None of them was given.")
    return list(dict.fromkeys(words))


def module(folder: str, name: str) -> Any:
    """The file of that name."""
    return importlib.import_module(f"{__package__}.{folder}.{name}")


def said(file: Any) -> tuple[str, str]:
    """("HMC", "a kick of ...") from the first line of a file's docstring, "HMC: a kick of ..."."""
    title, _, text = (file.__doc__ or "").strip().splitlines()[0].partition(": ")
    return title, text

"""Markup by functions: what is not markup already is escaped, whoever wrote it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any


class Html(str):
    """Text that is markup and stays as it is; every other text is escaped where it enters a tag."""


def tag(name: str, *content: Any, **attributes: Any) -> Html:
    """<name attributes>content</name>.

    Args:
        name: Of the element; "img" and "meta" have no end.
        *content: `Html` stays, everything else is escaped.
        **attributes: A trailing underscore is left out (class_), others become hyphens; None leaves one out.
    """
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{html.escape(str(value), quote=True)}"')
    start = f"<{' '.join(words)}>"
    return Html(start) if name in ("img", "meta") else Html(f"{start}{joined(*content)}</{name}>")


def joined(*content: Any) -> Html:
    """The parts one after the other."""
    return Html("".join(part if isinstance(part, Html) else html.escape(str(part), quote=False) for part in content))


def paragraph(*content: Any, class_: str | None = None) -> Html:
    """A paragraph."""
    return tag("p", *content, class_=class_)


def listed(items: Sequence[Any]) -> Html:
    """A list of points; nothing where there are none."""
    return tag("ul", *(tag("li", item) for item in items)) if items else Html()


def facts(pairs: Sequence[tuple[str, Any]]) -> Html:
    """Words and what they stand for; pairs without a value are left out."""
    shown = [tag("div", tag("dt", word), tag("dd", value)) for word, value in pairs if value not in ("", None)]
    return tag("dl", *shown)


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], caption: str) -> Html:
    """A table that scrolls by itself where it is wider than the page; the first cell of a row names it."""
    kinds = [_kind([row[i] for row in rows]) for i in range(len(head))]
    top = tag("tr", *(tag("th", cell, scope="col", class_=kind) for cell, kind in zip(head, kinds, strict=True)))
    body = [tag("tr", tag("th", row[0], scope="row"), *_cells(row[1:], kinds[1:])) for row in rows]
    inside = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", *body))
    return tag("div", inside, class_="wide", role="region", aria_label=caption, tabindex="0")


def _cells(row: Sequence[Any], kinds: Sequence[str | None]) -> list[Html]:
    return [tag("td", cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)]


def _kind(column: Sequence[Any]) -> str | None:
    """Columns of words begin at the left."""
    return "words" if any(sum(letter.isalpha() for letter in str(cell)) > 4 for cell in column) else None


def code(text: str, label: str, *, wrap: bool = False) -> Html:
    """Lines to copy; they scroll by themselves, or go on in the next line."""
    return tag(
        "pre", tag("code", text), tabindex="0", role="region", aria_label=label, class_="wrapped" if wrap else None
    )


def section(title: str, *content: Any) -> Html:
    """A part of the page; its address is the title's first word."""
    place = title.split()[0].lower().strip(":,")
    return tag("section", tag("h2", title, id=place), *content, aria_labelledby=place)

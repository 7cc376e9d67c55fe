"""The verdict: a sentence an approximation, the outcome of each fit, and what to raise."""

from __future__ import annotations

import re

from zoo.core.posterior import Posterior

from .subject import Subject
from .tags import Html, joined, listed, paragraph, section, tag

ADVICE = re.compile(r"^(.*?): ((?:raise|lower|reparameterise|give|run|use)\b.*)$")


def verdict(about: Subject) -> Html:
    """The section."""
    found = about.comparison
    parts: list[Html] = [paragraph(headline(about), class_="headline")]
    if found is None:
        parts.append(paragraph(f"Nothing is compared: {about.missing}", class_="lack"))
    else:
        parts.append(listed([_marked(sentence) for sentence in found.sentences]))
        parts += [paragraph(tag("strong", "Note: "), note) for note in found.notes]
    parts.append(tag("h3", "Outcome of each fit"))
    parts.append(tag("ul", *(tag("li", _outcome(n, f)) for n, f in zip(about.names, about.fits, strict=True))))
    return section("Verdict", *parts)


def headline(about: Subject) -> str:
    """One sentence for those who read no further."""
    ok = [name for name, fit in zip(about.names, about.fits, strict=True) if fit.ok]
    ended = f"{len(ok)} of {len(about.fits)} fits ended ok"
    if about.comparison is None:
        return f"{ended}; there is nothing to compare with."
    rows = about.comparison.frame.to_dict("records")
    if about.comparison.poor:
        return f"{ended}. No fit is judged against {rows[0]['method']}, which is not good enough to be gold."
    counts: dict[str, int] = {}
    for row in rows[1:]:
        counts[str(row["verdict"])] = counts.get(str(row["verdict"]), 0) + 1
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{ended}. Against {rows[0]['method']}: {said}."


def _marked(sentence: str) -> Html:
    """The method's name in bold: the sentence is `compare`'s own, word for word."""
    name, colon, rest = sentence.partition(":")
    return joined(tag("strong", name + colon), rest)


def _outcome(name: str, fit: Posterior) -> Html:
    lines = fit.settings.get("verdict") or []
    state = tag("span", "ok" if fit.ok else "not ok", class_="ok" if fit.ok else "bad")
    parts = [tag("strong", name), " ", state]
    # The reasons stand in the list below.
    said = fit.outcome.partition("not converged")[0].rstrip("; ") if lines else fit.outcome
    if not fit.ok and said:
        parts += [": ", said]
    if fit.ok and fit.kind == "markov":
        parts.append(": R-hat, bulk and tail ESS, divergences and E-BFMI are within their limits.")
    if fit.settings.get("weights"):
        parts += [" Note: ", str(fit.settings["weights"]), "."]
    return joined(*parts, listed([_advice(str(line)) for line in lines]))


def _advice(line: str) -> Html:
    """A limit that was passed, with what to do about it set apart."""
    found = ADVICE.match(line)
    return joined(f"{found[1]}: ", tag("strong", found[2])) if found else joined(line)

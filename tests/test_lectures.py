"""docs/lectures.md is what the docstrings say, and they say where everything comes from."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def _generator():
    spec = importlib.util.spec_from_file_location("make_lectures", ROOT / "docs" / "make_lectures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_lectures"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


make = _generator()


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "lectures.md").read_text()
    assert page == make.text(), "stale: python docs/make_lectures.py"


def _must_say(path: Path) -> bool:
    """Every model, method, kernel and example names its source; of the guides those that are families."""
    return path.parent.name != "guides"


@pytest.mark.parametrize("path", [p for p in make.files() if _must_say(p)], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_file_names_its_source_and_appears(path: Path) -> None:
    assert list(make.entries(path)), "no Source: line in its docstring"
    assert f"../{path.relative_to(ROOT).as_posix()})" in make.text()


def _file(tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(make, "ROOT", tmp_path)
    path = tmp_path / "zoo" / "model.py"
    path.parent.mkdir()
    path.write_text(f'"""A model.\n\n{source}\n"""\n')
    return path


def test_a_source_line_is_taken_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'Source: Thome, "Evidence: a bar"; Ambrogioni II, "HMC";\n    Hoffman & Gelman 2014,\n    eq. 3.'
    found = list(make.entries(_file(tmp_path, source, monkeypatch)))
    assert [(entry.lecture, entry.title) for entry in found] == [
        ("Thome", "Evidence: a bar"),
        ("Ambrogioni", "II: HMC"),
        ("", "Hoffman & Gelman 2014, eq. 3"),
    ]


@pytest.mark.parametrize("source", ["Thome", "Thomas, 'A slide'", "Bishop, eq. 3.50", "lecture 3, 2016"])
def test_a_source_without_slide_or_year_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    with pytest.raises(ValueError, match="a Source must be a lecture"):
        list(make.entries(_file(tmp_path, f"Source: {source}.", monkeypatch)))

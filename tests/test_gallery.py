"""The gallery shows every kind of picture and every example that draws, each under its lecture, on one sound page."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from tests.refusals import refused
from tests.test_report_page import Reader
from zoo.report.pictures import known

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def gallery() -> Iterator[Any]:
    """docs/gallery.py, which finds its neighbours as a script does."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        yield importlib.import_module("gallery")
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_every_kind_is_in_the_gallery(gallery: Any) -> None:
    assert list(gallery.KINDS) == sorted(known())


def test_every_example_that_draws_is_in_the_gallery(gallery: Any) -> None:
    drawing = {p.stem for p in (ROOT / "examples").glob("*.py") if "--picture" in p.read_text()}
    assert {path.stem for path in gallery.examples()} == drawing
    assert set(gallery.QUICK) <= drawing


def test_every_entry_names_a_lecture_and_what_to_look_for(gallery: Any) -> None:
    every = [*map(gallery.kind_entry, gallery.KINDS), *map(gallery.example_entry, gallery.examples())]
    assert {entry.lecture for entry in every} == set(gallery.LECTURES)
    assert all(entry.title and len(entry.look) > 10 for entry in every)
    assert len({entry.name for entry in every}) == len(every)


def test_an_example_without_a_lecture_is_refused(gallery: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "nobody.py"
    path.write_text('"""A picture.\n\nSource: Neal 1996.\n"""\n')
    refused(lambda: gallery.example_entry(path), "nobody.py: the gallery is by lecture")


def test_a_kind_is_drawn_and_shown_with_its_commands(gallery: Any, tmp_path: Path) -> None:
    drawn = [gallery.draw_kind(kind, tmp_path) for kind in ("density", "lines")]
    assert imread(tmp_path / "density.png").shape[1] > 500
    assert drawn[0].command == (
        "zoo run coin_flip -m exact --seed 0 --set a=2 --set b=2 --set heads=7 --set n=10 -o coin.nc\n"
        "zoo plot coin.nc --kind density"
    )
    missing = gallery.example_entry(ROOT / "examples" / "pendulum.py")
    reader = Reader(gallery.index([*drawn, missing], tmp_path))
    assert reader.wrong == []
    images = [attributes for name, attributes in reader.found if name == "img"]
    assert [image["src"] for image in images] == ["lines.png", "density.png"]  # by lecture: Thome, Yandex
    assert all(len(str(image["alt"])) > 20 for image in images)
    assert "python examples/pendulum.py --picture pendulum.png" in reader.text
    assert "Not drawn in the quick form." in reader.text


def test_an_example_that_fails_is_said(gallery: Any, tmp_path: Path) -> None:
    path = tmp_path / "fails.py"
    path.write_text("raise SystemExit('no such thing')\n")
    assert gallery.draw_example(path, tmp_path) == "no such thing"
    path.write_text("")
    assert gallery.draw_example(path, tmp_path) == "it wrote no picture"

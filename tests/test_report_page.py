"""`zoo report`: a whole page for whatever it is given, safe to open, without a network, and true: its calls work."""

from __future__ import annotations

import base64
import dataclasses
import html.parser
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from tests import report_cases as cases
from tests.browser import page
from tests.refusals import refused
from zoo.__main__ import main
from zoo.report.page import pictures as drawing
from zoo.report.page import write as writing
from zoo.report.page.again import again, outputs
from zoo.report.page.asked import formula
from zoo.report.page.subject import subject
from zoo.report.page.tags import Html, tag
from zoo.report.page.verdicts import _outcome, headline
from zoo.report.table import cells, joint_cells

VOID = ("img", "meta")


class Reader(html.parser.HTMLParser):
    """Reads a page: its elements with attributes, the text of each kind of element, and what is ill-formed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.wrong: list[str] = []
        self.feed(text)
        self.close()
        self.wrong += [f"<{name}> is not closed" for name in self.open]

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((name, dict(attributes)))
        if len({key for key, _ in attributes}) < len(attributes):
            self.wrong.append(f"<{name}> has an attribute twice")
        if name not in VOID:
            self.open.append(name)
            self.texts.append((name, ""))

    def handle_endtag(self, name: str) -> None:
        if not self.open or self.open.pop() != name:
            self.wrong.append(f"</{name}> closes another element")

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.append((self.open[-1], data))

    def of(self, name: str) -> list[str]:
        """The texts directly inside elements of a name, empty ones too."""
        out: list[str] = []
        for element, text in self.texts:
            if element == name and text == "":
                out.append("")
            elif element == name and out:
                out[-1] += text
        return out

    @property
    def text(self) -> str:
        """All that is read on the page."""
        return " ".join("".join(text for element, text in self.texts if element not in ("style", "title")).split())


def read(path: Path) -> Reader:
    """The page, with all that holds of every page checked."""
    text = path.read_text(encoding="utf-8")
    reader = Reader(text)
    assert text.startswith("<!DOCTYPE html>")
    assert reader.wrong == []
    for name, attributes in reader.found:
        for key, value in attributes.items():
            assert not key.startswith("on"), (name, key)
            if key in ("src", "href", "srcset", "action", "data", "poster"):
                assert str(value).startswith("#" if key == "href" else "data:image/png;base64,"), (name, value)
    assert not {name for name, _ in reader.found} & {"script", "link", "iframe", "object", "base"}
    assert not re.search(r"url\(|@import|https?://", text)
    assert all(len(str(a["alt"])) > 20 for name, a in reader.found if name == "img")
    ids = [a["id"] for _, a in reader.found if "id" in a]
    assert len(ids) == len(set(ids))
    assert {str(a["href"])[1:] for name, a in reader.found if name == "a"} <= set(ids)
    assert len(reader.of("h1")) == 1
    return reader


def pictures(reader: Reader) -> dict[str, str]:
    """{kind: alternative text}; every one is a whole PNG."""
    images = [attributes for name, attributes in reader.found if name == "img"]
    for attributes in images:
        assert base64.b64decode(str(attributes["src"]).partition(",")[2]).startswith(b"\x89PNG")
    return {str(a["alt"]).partition(" of ")[0]: str(a["alt"]) for a in images}


@pytest.fixture
def unpainted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but not painted: that takes most of the time, and other tests look at pictures."""
    pixel = base64.b64encode(b"\x89PNG").decode()
    monkeypatch.setattr(drawing, "png", lambda figure: (f"data:image/png;base64,{pixel}", 500))


def line(d: int = 1, **options: Any) -> zoo.Posterior:
    return cases.line_fit(cases.line_problem(d=d), (2, 60), **options)


@pytest.fixture(scope="module")
def fits() -> list[zoo.Posterior]:
    problem = zoo.load("linear_regression")
    return [zoo.run(problem, "exact", draws=600), zoo.run(problem, "svi", steps=60, draws=200)]


@pytest.fixture(scope="module")
def files(fits: list[zoo.Posterior], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("report fits")
    return [str(fit.save(folder / f"{fit.method}.nc")) for fit in fits]


@pytest.fixture(scope="module")
def written(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("page") / "report.html"
    assert main(["report", *files, "-o", str(to)]) == 0
    return to


# -- what it says ------------------------------------------------------------------------------------------


def test_the_verdict_and_the_tables_are_those_of_compare(written: Path, fits: list[zoo.Posterior]) -> None:
    reader, found = read(written), zoo.compare(*fits)
    for sentence in found.sentences:
        assert " ".join(sentence.split()) in reader.text
    for note in found.notes:
        assert note in reader.text
    shown = reader.of("td") + reader.of("th")
    for head, rows, *words in (cells(found.frame), joint_cells(found.frame)):
        for cell in [*head, *(cell for row in rows for cell in row)]:
            assert cell in shown
        assert words[0] in reader.text


def test_no_fit_is_judged_against_a_poor_gold() -> None:
    """Twin: the same fit against a gold that is good enough."""
    gold, narrow = cases.line_fit(), cases.line_fit(method="svi", kind="iid", seed=1, sd=0.1)
    said = headline(subject([dataclasses.replace(gold, outcome="interrupted after 250 draws"), narrow]))
    assert said == "1 of 2 fits ended ok. No fit is judged against nuts, which is not good enough to be gold."
    assert headline(subject([gold, narrow])).endswith("Against nuts: 1 over-confident.")


def test_the_scores_are_those_of_scores(written: Path, fits: list[zoo.Posterior]) -> None:
    shown = read(written).of("td")
    for fit in fits:
        found = zoo.scores(fit)
        for name in ("rmse", "log_lik", "crps", "in95"):
            assert any(cell.startswith(writing.tables.number(found[name], 3)) for cell in shown), name


def test_what_was_asked(written: Path) -> None:
    text = read(written).text
    for words in (
        "Bayesian linear regression", "y_i ~ N(f_i, noise^2)", "toy.line(seed=0, n=25)", "25; held out: 61", "1 (x)",
        "draws = 200", "steps = 60", "3624619f357c", "The reference is the first fit, exact.", f"zoo {zoo.__version__}",
        "raise steps or lower lr",
    ):  # fmt: skip
        assert words in text, words


def test_the_pictures_suit_the_model_and_the_methods(written: Path) -> None:
    found = pictures(read(written))
    assert list(found) == ["band", "beside", "convergence", "predicted", "calibration", "loo_pit", "ppc", "elbo"]
    assert found["beside"].startswith("beside of exact, svi: Each approximation on top of gold")
    assert "axes: y against x" in found["band"]


def test_a_page_for_eyes_in_the_dark_and_for_phones(written: Path) -> None:
    """WCAG AA: every colour of text on every ground it stands on has a contrast of 4.5 or more, in both schemes."""
    css = (writing.HERE / "style.css").read_text()
    light, dark = (
        dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in re.findall(r":root \{(.*?)\}", css, re.S)
    )
    assert light.keys() == dark.keys()
    for scheme in (light, dark):
        for ink in ("ink", "soft", "link", "ok", "bad"):
            for ground in ("paper", "card"):
                assert contrast(scheme[ink], scheme[ground]) >= 4.5, (ink, ground)
    assert contrast("#999999", "#ffffff") < 4.5  # the twin
    assert 'name="viewport" content="width=device-width, initial-scale=1"' in written.read_text()


def contrast(a: str, b: str) -> float:
    """WCAG 2's ratio of relative luminances."""
    values = [int(colour[i : i + 2], 16) / 255 for colour in (a, b) for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    one, two = (0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear[:3], linear[3:]))
    return (max(one, two) + 0.05) / (min(one, two) + 0.05)


# -- its calls make the fits again -------------------------------------------------------------------------


def test_the_calls_on_the_page_make_the_same_fits(
    written: Path, fits: list[zoo.Posterior], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    codes = [code for code in read(written).of("code") if code.startswith(("import zoo", "zoo run"))]
    assert len(codes) == 2 * len(fits)
    for fit, python, shell in zip(fits, codes[::2], codes[1::2], strict=True):
        place: dict[str, Any] = {}
        exec(python, place)
        same(fit, place["fit"])
        words = shlex.split(shell)
        main(words[1:])
        same(fit, zoo.open(words[-1]))


def same(a: zoo.Posterior, b: zoo.Posterior) -> None:
    assert a.problem.hash == b.problem.hash
    assert a.draws.keys() == b.draws.keys()
    for name, value in a.draws.items():
        assert torch.equal(value, b.draws[name]), name


def made(name: str, method: str, *, load: dict[str, Any] | None = None, **options: Any) -> zoo.Posterior:
    return zoo.run(zoo.load(name, **(load or {})), method, **options)


AGAIN = {
    "own data": (
        lambda: made("coin_flip", "exact", load={"n": 10, "heads": 7, "a": 2.0}, draws=20, seed=3),
        "zoo.load('coin_flip', a=2.0, heads=7, n=10)",
        "zoo run coin_flip -m exact --seed 0 --set a=2.0 --set n=10 --set heads=7 --opt draws=20 --opt seed=3",
    ),
    "a set": (
        lambda: made("linear_regression", "laplace", load={"data": "diabetes", "test": 0.3, "seed": 2}, draws=9),
        "zoo.load('linear_regression', 'diabetes', seed=2, test=0.3)",
        "zoo run linear_regression -m laplace --data diabetes --seed 2 --test 0.3 --opt draws=9 "
        "--opt seed=0",
    ),
    "float64": (
        lambda: made("softmax_regression", "map", load={"n": 30, "classes": 4, "seed": 1}, dtype="float64", restarts=1),
        "zoo.load('softmax_regression', seed=1, classes=4, n=30)",
        "zoo run softmax_regression -m map --seed 1 --set n=30 --set classes=4 --opt restarts=1 --opt seed=0 "
        "--opt dtype=float64",
    ),
    "a guide": (
        lambda: made("linear_regression", "svi", guide="low_rank", guide_options={"rank": 1}, point=("b",), steps=9),
        "zoo.load('linear_regression')",
        "zoo run linear_regression -m svi --seed 0 --opt guide=low_rank --opt 'guide_options={'\"'\"'rank'\"'\"': 1}' "
        "--opt 'point=['\"'\"'b'\"'\"']' --opt steps=9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", AGAIN)
def test_calls_are_written_as_they_were_made(name: str) -> None:
    make, problem, shell = AGAIN[name]
    fit = make()
    found = again(fit)
    assert problem in found.python
    assert sorted(shlex.split(found.shell)[:-2]) == sorted(shlex.split(shell))
    assert found.notes == ()
    place: dict[str, Any] = {}
    exec(found.python, place)
    same(fit, place["fit"])


def test_a_file_of_numbers_is_read_again_as_it_was(tmp_path: Path) -> None:
    rows = ["a;b;name;y", *(f"{i};{i * i % 7};n{i % 3};{'' if i == 5 else i}" for i in range(40))]
    table = tmp_path / "my table.csv"
    table.write_text("\n".join(rows).replace(";", ","))
    data = {"data": str(table), "target": "y", "ignore": ["b"], "missing": "drop", "test": 0.25}
    fit = made("linear_regression", "exact", load=data, draws=7)
    found = again(fit)
    assert "target='y', ignore=['b'], test=0.25, missing='drop'" in found.python
    words = shlex.split(found.shell)
    assert main([*words[1:-1], str(tmp_path / "again.nc")]) == 0
    same(fit, zoo.open(tmp_path / "again.nc"))
    table.write_text("a,y\n1,2\n3,4\n5,6\n7,9\n9,1\n")  # another table under the same name is not the same data
    assert again(fit).shell == ""


def test_commands_write_to_files_of_their_own() -> None:
    fits = [made("coin_flip", "exact", draws=5, seed=seed) for seed in range(3)]
    assert outputs(fits, ["", "", ""]) == ["exact.nc", "exact-2.nc", "exact-3.nc"]
    assert outputs(fits, ["a/wide.nc", "b/wide.nc", ""]) == ["wide.nc", "wide-2.nc", "exact.nc"]
    commands = [code for code in Reader(writing.reproduce(subject(fits))).of("code") if code.startswith("zoo run")]
    assert [shlex.split(command)[-1] for command in commands] == ["exact.nc", "exact-2.nc", "exact-3.nc"]


def test_data_and_objects_of_your_own_are_said(tmp_path: Path) -> None:
    x = torch.linspace(0, 1, 9)[:, None]
    problem = zoo.load("linear_regression", zoo.Data(x, x[:, 0]))
    fit = zoo.run(problem, "exact", draws=5)
    found = again(fit, "fit.nc")
    assert "problem = zoo.open('fit.nc').problem" in found.python
    assert found.shell == ""
    assert "were given in Python; the file holds them" in found.notes[0]
    place: dict[str, Any] = {}
    exec(found.python.replace("'fit.nc'", repr(str(fit.save(tmp_path / "fit.nc")))), place)
    same(fit, place["fit"])
    mine = again(dataclasses.replace(fit, settings=fit.settings | {"options": {"init": "Posterior"}}, method="nuts"))
    assert "init=your_init" in mine.python
    assert "init was an object of your own" in mine.notes[0]
    theirs = again(line())
    assert "zoo.Problem('my line', your_model, your_data, hyper={'sd': 0.5})" in theirs.python
    assert "the model is your own" in theirs.notes[0]


# -- whatever it is given ----------------------------------------------------------------------------------


def report(fits: Any, folder: Path) -> Reader:
    return read(zoo.write_report(fits, folder / "page.html"))


@pytest.mark.usefixtures("unpainted")
def test_one_fit_is_compared_with_the_gold_file(files: list[str], fits: list[zoo.Posterior], tmp_path: Path) -> None:
    found = zoo.compare(zoo.find_gold(fits[0].problem), fits[0])
    alone = report(files[0], tmp_path)
    assert found.sentences[0] in alone.text
    assert "The reference is the gold file 'linear_regression'" in alone.text
    assert {"beside", "convergence"} <= set(pictures(alone))
    to = tmp_path / "gold.html"
    assert main(["report", "gold", files[0], "-o", str(to)]) == 0
    assert found.sentences[0] in read(to).text


@pytest.mark.usefixtures("unpainted")
def test_one_fit_without_gold_is_described(tmp_path: Path) -> None:
    reader = report(line(method="nuts"), tmp_path)
    assert "there is nothing to compare with" in reader.text
    assert "there is no gold for my line" in reader.text
    assert {"band", "trace", "rank"} <= set(pictures(reader))


@pytest.mark.usefixtures("unpainted")
def test_captions_are_of_what_is_drawn(tmp_path: Path) -> None:
    x = torch.linspace(-1, 1, 12)[:, None]
    problem = zoo.load("logistic_regression", zoo.Data(x, (x[:, 0] > 0).float()))
    pages = [report(fit, tmp_path).text for fit in (zoo.run(problem, "prior", draws=50), line())]
    for words, here in (
        ("Points on the diagonal", [False, True]),
        ("p-values near 0 or 1 are misses", [False, True]),
        ("Filled points high, hollow ones low", [True, False]),
    ):
        assert [words in text for text in pages] == here, words


def test_an_interrupted_fit_lists_its_reasons_once() -> None:
    why = "R-hat of w is 1.5, limit 1.01: raise draws"
    settings = {"verdict": [why]}
    fit = line(outcome=f"interrupted after 60 draws; not converged: {why}", settings=settings)
    assert _outcome("nuts", fit).count("R-hat of w") == 1
    assert "not ok</span>: interrupted after 60 draws<ul>" in _outcome("nuts", fit)
    biased = dataclasses.replace(fit, outcome="biased: by its step", settings={})
    assert "not ok</span>: biased: by its step" in _outcome("nuts", biased)


@pytest.mark.usefixtures("unpainted")
def test_names_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert('&amp;\"')</script>"
    info = {"x_names": [f"{evil} {i}" for i in range(3)], "y_name": f"y{evil}", "source": evil}
    problem = zoo.Problem(f"my {evil}", cases.line, cases.line_problem(d=3, **info).data, hyper={"sd": 0.5})
    bad = cases.line_fit(problem, (2, 60), outcome=f"not converged {evil}")
    reader = report(
        [cases.line_fit(problem, (2, 60)), dataclasses.replace(bad, settings={"verdict": [evil]})], tmp_path
    )
    assert reader.text.count(evil) >= 5
    assert "[[STYLE]]" not in reader.text


@pytest.mark.usefixtures("unpainted")
def test_places_to_fill_in_a_name_stay(tmp_path: Path) -> None:
    problem = dataclasses.replace(cases.line_problem(d=3), name="[[STYLE]] [[BODY]]")
    assert "Model [[STYLE]] [[BODY]]" in report(cases.line_fit(problem, (2, 60)), tmp_path).text


LACKING = {
    "no test rows": (lambda: line_without(x_test=None, y_test=None), "No rows are held out"),
    "no y in the test rows": (lambda: line_without(y_test=None), "No rows are held out"),
    "no inputs": (lambda: zoo.run("coin_flip", "exact", draws=60), "0: the model has no inputs"),
    "points": (lambda: zoo.run("linear_regression", "map", restarts=2), "loo needs draws of a density"),
    "a dict": (
        lambda: zoo.run(zoo.Problem("schools", cases.schools, dict(cases.SCHOOLS)), "prior", draws=60, chains=2),
        "a score needs a problem on zoo.Data",
    ),
    "the prior": (lambda: zoo.run("linear_regression", "prior", draws=60), "loo needs draws that know y"),
    "one draw": (lambda: line_of(1), "trace needs 2 draws"),
}  # fmt: skip


def line_without(**lost: Any) -> zoo.Posterior:
    problem = cases.line_problem(d=1)
    data = dataclasses.replace(problem.data, **lost)  # type: ignore[type-var]
    return cases.line_fit(dataclasses.replace(problem, data=data), (2, 60))


def line_of(draws: int) -> zoo.Posterior:
    return cases.line_fit(cases.line_problem(d=1), (2, draws))


@pytest.mark.usefixtures("unpainted")
@pytest.mark.parametrize("name", LACKING)
def test_what_a_fit_lacks_is_said_on_the_page(name: str, tmp_path: Path) -> None:
    make, said = LACKING[name]
    reader = report(make(), tmp_path)
    assert said in reader.text
    assert pictures(reader)


@pytest.mark.usefixtures("unpainted")
def test_a_fit_opened_without_its_model(tmp_path: Path) -> None:
    fits = [zoo.open(line(d=3, seed=seed).save(tmp_path / f"{seed}.nc")) for seed in (0, 1)]
    reader = report(fits, tmp_path)
    assert "the file was opened without it" in reader.text
    assert zoo.compare(*fits).sentences[0] in reader.text
    assert {"predicted", "beside", "calibration"} <= set(pictures(reader))


@pytest.mark.slow
def test_many_columns_and_classes_stay_readable(tmp_path: Path) -> None:
    g = cases.generator()
    x, y = torch.randn(120, 50, generator=g), torch.arange(120) % 10
    info = {"x_names": [f"a rather long column {i}" for i in range(50)], "classes": [f"class {k}" for k in range(10)]}
    fit = zoo.run(zoo.load("softmax_regression", zoo.Data(x, y, x[:20], y[:20], info=info)), "laplace", draws=60)
    reader = report([fit, fit], tmp_path)
    assert "column 7 and 42 more" in reader.text
    assert "class 7 and 2 more" in reader.text
    assert all(int(re.search(r"\d+", str(a["style"]))[0]) < 2000 for n, a in reader.found if n == "img")  # type: ignore[index]
    assert sum("column" in text for text in reader.of("td")) == 0


def test_what_cannot_be_reported_is_refused_in_one_line(files: list[str], tmp_path: Path) -> None:
    page = str(tmp_path / "page.html")
    refused(lambda: zoo.write_report([], page), "at least one fit, got none")
    refused(lambda: zoo.write_report([files[0], line()], page), "different data")
    refused(lambda: zoo.write_report("nothing.nc", page), "no file nothing.nc", error=FileNotFoundError)
    refused(lambda: zoo.write_report(3, page), "write_report takes posteriors, got int", error=TypeError)  # type: ignore[arg-type]
    refused(lambda: zoo.write_report(files, tmp_path), "must be a file, got the folder")
    refused(lambda: zoo.write_report(files, tmp_path / "no" / "page.html"), "there is no folder")
    refused(lambda: zoo.write_report(files, "/proc/page.html"), "can't be written", error=OSError)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words, said",
    [(["gold"], "needs a fit to measure"), (["nowhere.nc"], "there is no file nowhere.nc"), ([], "required: FIT.nc")],
)
def test_the_command_refuses_in_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


@pytest.mark.usefixtures("unpainted")
def test_the_page_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = tmp_path / "page.html"
    to.write_text("before")

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    fit = line()
    monkeypatch.setattr("os.replace", fails)
    refused(lambda: zoo.write_report(fit, to), "can't be written: No space left", error=OSError)
    assert to.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_markup_is_escaped_unless_it_is_markup() -> None:
    assert tag("p", "a < b & c", class_='"') == '<p class="&quot;">a &lt; b &amp; c</p>'
    assert tag("p", tag("b", "x"), Html("<i>")) == "<p><b>x</b><i></p>"


def test_a_formula_is_the_indented_block() -> None:
    assert formula("A model.\n\n    w ~ N(0, 1)\n      more\n\n    y ~ N(w, 1)\n\nWords.\n    not this") == (
        "w ~ N(0, 1)\n  more\n\ny ~ N(w, 1)"
    )
    assert formula("Only words.\n\nSource: Thome.") == "Only words."


def test_names_are_those_of_the_tables(fits: list[zoo.Posterior]) -> None:
    about = subject([*fits, fits[1]])
    assert about.comparison is not None
    assert list(about.names) == about.comparison.frame["method"].tolist() == ["exact", "svi", "svi 2"]
    assert np.isfinite(about.comparison.frame["off"][1:]).all()


# -- in a browser ------------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_page_in_chromium(written: Path) -> None:
    with page(written) as session:
        assert "svi:" in session.evaluate("document.getElementById('verdict').parentElement.innerText")
        shown = "Array.from(document.images).filter(i => i.complete && i.naturalWidth > 200).length"
        assert session.evaluate(shown) == session.evaluate("document.images.length") == 8
        for width in (360, 1280):
            session.post("/window/rect", width=width, height=800)
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert session.evaluate(wide) <= 0  # tables and pictures scroll by themselves
        assert session.console() == []


@pytest.mark.browser
def test_an_error_on_the_page_is_seen(written: Path, tmp_path: Path) -> None:
    """The twin: a picture that is not inside the page."""
    broken = tmp_path / "broken.html"
    broken.write_text(re.sub(r"data:image/png;base64,[^\"]+", "missing.png", written.read_text(), count=1))
    with page(broken) as session:
        assert any("SEVERE" in entry for entry in session.console())

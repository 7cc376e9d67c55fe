"""`zoo plot`: what it writes, what it refuses in one line, and that its help loads nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

import zoo
from zoo.__main__ import main
from zoo.cli.commands import plot

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Small fits as files."""
    folder = tmp_path_factory.mktemp("fits")
    problem = zoo.load("linear_regression")
    made = {
        "exact": zoo.run(problem, "exact", draws=100),
        "laplace": zoo.run(problem, "laplace", draws=100),
        "coin": zoo.run("coin_flip", "exact", draws=100),
    }
    return {name: str(fit.save(folder / f"{name}.nc")) for name, fit in made.items()}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_a_picture_and_says_where(fits: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", fits["exact"], fits["laplace"], "--kind", "band", "-o", "b.png"]) == 0
    assert capsys.readouterr().out == "saved b.png\n"
    assert imread("b.png").shape[1] == 1350
    assert main(["plot", fits["exact"], "-k", "forest", "--site", "w", "--site", "b"]) == 0
    assert capsys.readouterr().out == "saved exact-forest.png\n"
    assert main(["plot", fits["exact"], "-k", "lines", "--opt", "rows=(0, 3)", "--opt", "draws=5", "-o", "l.pdf"]) == 0
    assert Path("l.pdf").read_bytes().startswith(b"%PDF")
    assert main(["plot", fits["coin"]]) == 0
    assert sorted(p.name for p in Path().iterdir()) == ["b.png", "coin-picture.png", "exact-forest.png", "l.pdf"]


@pytest.mark.parametrize(
    "words, said",
    [
        (["plot"], "arguments are required: FIT.nc"),
        (["plot", "nowhere.nc", "-k", "band"], "there is no file nowhere.nc"),
        (["plot", "EXACT", "-k", "bnad"], "unknown kind 'bnad'. Did you mean 'band'? Kinds are: acceptance: "),
        (["plot", "EXACT", "-k", "band", "-o", "no/b.png"], "-o must be in an existing folder, got 'no/b.png'"),
        (["plot", "EXACT", "-k", "band", "-o", "b.doc"], "b.doc ends in .doc; pictures are written as"),
        (["plot", "EXACT", "-k", "elbo"], "needs a fit that climbed an ELBO (svi), got exact"),
        (["plot", "EXACT", "-k", "energy"], "needs draws of a sampler with a momentum (nuts, hmc), got exact"),
        (["plot", "EXACT", "-k", "surface"], "needs x of shape (n, 2), got (25, 1). Try kind 'band'."),
        (["plot", "COIN", "-k", "band"], "got (2, 0). Try kind 'density'."),
        (["plot", "EXACT", "-k", "trace", "--site", "v"], "unknown site 'v'"),
        (["plot", "EXACT", "-k", "band", "--site", "w"], "'band' takes no option 'site'. Its options: output."),
        (["plot", "EXACT", "-k", "elbo", "--output", "2"], "'elbo' takes no option 'output'. Its options: none."),
        (["plot", "EXACT", "-k", "band", "--opt", "rows"], "expected name=value, got 'rows'"),
        (["plot", "EXACT", "COIN", "-k", "band"], "the fits are of different data"),
    ],
)
def test_what_is_wrong_is_one_line(
    words: list[str], said: str, fits: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([fits.get(word.lower(), word) if word.isupper() else word for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("zoo: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert not list(Path().iterdir())


def test_help_lists_the_kinds_and_loads_nothing() -> None:
    code = (
        "import sys\nfrom zoo.__main__ import main\n"
        "try: main(['plot', '--help'])\nexcept SystemExit: pass\n"
        "print(*{m.split('.')[0] for m in sys.modules} & {'torch', 'pyro', 'numpy', 'matplotlib', 'xarray'}, 'end')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    text, _, loaded = done.stdout.rstrip().rpartition("\n")
    assert loaded == "end"
    for kind, what in plot.kinds().items():
        assert any(line.split(maxsplit=1) == [kind, what] for line in text.splitlines()), kind

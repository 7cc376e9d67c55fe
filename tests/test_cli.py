"""The command line: quick where nothing is computed, one line where something is wrong, exit codes."""

from __future__ import annotations

import ast
import csv
import dataclasses
import logging
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import zoo
from zoo.__main__ import main
from zoo.cli import catalogue
from zoo.cli.values import options, parse

ROOT = Path(__file__).parents[1]
COIN = ["run", "coin_flip", "-m", "exact"]
PYTHON_M_ZOO = [sys.executable, "-m", "zoo"]


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PYTHON_M_ZOO, *words], capture_output=True, text=True, cwd=ROOT)


# -- list, show, --help ----------------------------------------------------------------------------------


def test_list_names_every_model_and_method(capsys: pytest.CaptureFixture[str]) -> None:
    from zoo.infer.dispatch import methods

    assert main(["list"]) == 0
    first_words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert first_words == [*zoo.names(), *sorted(methods(), key=first_words.index), *catalogue.guides()]


def test_the_catalogue_is_what_the_zoo_runs() -> None:
    from zoo.infer.dispatch import methods

    assert sorted(catalogue.models()) == zoo.names()
    assert set(catalogue.methods()) == set(methods())


@pytest.mark.parametrize("name", zoo.names())
def test_show_states_what_the_model_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    import importlib
    import inspect

    assert main(["show", name]) == 0
    printed = capsys.readouterr().out
    module = importlib.import_module(f"zoo.{name}")
    assert inspect.getdoc(module) in printed
    for parameter in inspect.signature(module.model).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            options_lines = printed.split("\nhyperparameters", 1)[1].splitlines()
            line = next(line for line in options_lines if line.split()[:1] == [parameter.name])
            assert ast.literal_eval(line.split(maxsplit=1)[1]) == parameter.default
    assert ("exact: yes" in printed) == hasattr(module, "exact")
    assert ("prepare: yes" in printed) == hasattr(module, "prepare")


@pytest.mark.parametrize("name", sorted({**catalogue.methods(), **catalogue.guides(), **catalogue.kinds()}))
def test_show_states_the_options_of_a_method_guide_or_picture(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its default as a value, never as a constant's name, and with what it means."""
    assert main(["show", name]) == 0
    printed = capsys.readouterr().out
    assert "options (--opt" in printed
    assert name not in catalogue.methods() or all(f"\n  {word} " in printed for word in ("seed", "dtype", "device"))
    for block in printed.split("\noptions (--opt")[1:]:
        lines = block.split("\n\n")[0].splitlines()[1:]
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if not line.startswith("   ") and line.split()[1:]:
                assert not line.split()[1].isupper()
                assert following.startswith("     "), f"{name}: nothing is said of {line.split()[0]}"


def test_show_states_what_a_guide_cannot_represent(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("normal", "low_rank", "full_rank"):
        assert main(["show", name]) == 0
        assert "cannot represent" in capsys.readouterr().out


def test_show_leads_from_a_model_to_the_priors(capsys: pytest.CaptureFixture[str]) -> None:
    from zoo.core.priors import KINDS

    assert main(["show", "bnn_regression"]) == 0
    assert "zoo show priors" in capsys.readouterr().out
    assert main(["show", "priors"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n    {kind} " in printed for kind in KINDS)
    assert "narrow" in printed.rpartition("options")[2]


@pytest.mark.parametrize("words", [["list"], ["show", "coin_flip"], ["--help"], ["run", "--help"]])
def test_what_computes_nothing_answers_at_once(words: list[str]) -> None:
    code = "import sys, runpy\nsys.argv = ['zoo', *sys.argv[1:]]\n"
    code += "try:\n    runpy.run_module('zoo', run_name='__main__')\n"
    code += "finally:\n    print({'torch', 'pyro', 'numpy'} & set(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "set()\n"
    seconds = []  # of the processor: a busy machine changes nothing
    for _ in range(3):
        start = _seconds_of_children()
        run(*words)
        seconds.append(_seconds_of_children() - start)
    assert min(seconds) < 0.3, seconds


def test_list_into_a_closed_pipe_is_quiet() -> None:
    listing = subprocess.Popen([*PYTHON_M_ZOO, "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    with listing.stderr as stderr:
        assert stderr.read() == b""
    assert listing.wait() == 0


# -- run, compare ----------------------------------------------------------------------------------------


def test_run_prints_the_coins_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COIN, "--set", "a=2", "--set", "b=2", "--set", "n=10"]) == 0
    assert main([*COIN, "--opt", "draws=2000"]) == 0
    printed = capsys.readouterr().out
    assert "log evidence -1.09861" in printed  # two flips, both heads, Beta(1, 1): 1/3
    theta = next(line for line in printed.splitlines()[-4:] if line.startswith("theta"))
    mean, sd = (float(word) for word in theta.split()[1:3])
    # Beta(3, 1): mean .75, sd .1936; 2,000 independent draws: 5 standard errors of the mean are .022
    assert abs(mean - 0.75) < 0.022
    assert abs(sd - 0.1936) < 0.02
    assert "outcome: ok" in printed


def _normal_chains(shift: float) -> zoo.Posterior:
    """Four chains of 500 draws of theta; the last one shifted."""
    import torch

    good = zoo.run("coin_flip", "exact", draws=500, chains=4)
    theta = good.draws["theta"] + shift * torch.tensor([0.0, 0.0, 0.0, 1.0])[:, None]
    return dataclasses.replace(good, kind="markov", draws={"theta": theta})


def test_run_says_when_chains_disagree() -> None:
    from zoo.cli.summary import summary
    from zoo.infer.verdict import judged

    assert "outcome: ok" in summary(judged(_normal_chains(0.0)))
    printed = summary(judged(_normal_chains(0.5)))
    assert "outcome: not converged\n  R-hat of theta is" in printed
    assert "limit 1.01: raise warmup or draws" in printed


def test_run_leaves_logging_as_it_was() -> None:
    logger = logging.getLogger("zoo")
    before = (logger.level, [*logger.handlers])
    main([*COIN, "--opt", "draws=10"])
    assert (logger.level, logger.handlers) == before


def test_run_on_a_table_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{i},{2 * i + 1},{i % 3}" for i in range(30)]
    (tmp_path / "mine.csv").write_text("\n".join(["size,price,kind", *rows]) + "\n")
    words = [
        "run",
        "linear_regression",
        "-m",
        "exact",
        "--target",
        "price",
        "--data",
        str(tmp_path / "mine.csv"),
    ]
    assert main(words) == 0
    assert "f 24" in capsys.readouterr().out  # a fifth is held out
    words[words.index("price")] = "prise"
    assert main(words) == 2
    assert "'price'" in capsys.readouterr().err


def test_run_says_the_units_and_a_noise_that_was_not_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table's y is standardised, so the default noise of .6 means something else there."""
    path = tmp_path / "line.csv"
    path.write_text("age,price\n" + "\n".join(f"{i},{100 + 3 * i + (7 * i) % 5}" for i in range(40)))
    table = ["run", "linear_regression", "-m", "map", "--data", str(path)]
    assert main(table) == 0
    printed = capsys.readouterr().out
    assert "f and predictions are in the units of price; weights, noise" in printed
    assert "noise is taken as known, 0.6 sds of price: --set noise=None learns it" in printed
    assert main([*table, "--set", "noise=None"]) == 0
    assert "taken as known" not in capsys.readouterr().out


def test_run_saves_and_compare_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("exact", "prior"):
        assert main(["run", "linear_regression", "-m", method, "-o", str(tmp_path / f"{method}.nc")]) == 0
        assert (tmp_path / f"{method}.nc").exists()
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "exact.nc"), str(tmp_path / "prior.nc")]) == 0
    assert "prior" in capsys.readouterr().out


def test_an_outcome_that_is_not_ok_is_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    good = zoo.run("coin_flip", "exact", draws=10)
    bad = dataclasses.replace(good, outcome="not converged: raise steps or lower lr")
    monkeypatch.setattr(zoo, "run", lambda *args, **kwargs: bad)
    assert main(COIN) == 1


@pytest.mark.parametrize(
    "words, said",
    [
        (["lst"], "unknown command 'lst'. Did you mean 'list'?"),
        ([], "arguments are required: COMMAND"),
        (["list", "--fast"], "unrecognized arguments: --fast"),
        (["show", "coin_flop"], "unknown name 'coin_flop'. Did you mean 'coin_flip'?"),
        (["run", "coin_flop", "-m", "exact"], "unknown model 'coin_flop'. Did you mean 'coin_flip'?"),
        (["run", "coin_flip", "-m", "exakt"], "unknown method 'exakt'. Did you mean 'exact'?"),
        (["run", "coin_flip"], "arguments are required: -m/--method"),
        ([*COIN, "--set", "aa=1"], "unknown option 'aa'. Did you mean 'a'?"),
        ([*COIN, "--set", "a"], "expected name=value, got 'a'"),
        ([*COIN, "--opt", "draw=5"], "unknown option 'draw'. Did you mean 'draws'?"),
        ([*COIN, "--opt", "draws=0"], "draws must be a whole number, at least 1, got 0"),
        ([*COIN, "--opt", "draws=5", "--opt", "draws=6"], "draws was given twice"),
        ([*COIN, "--seed", "x"], "invalid int value: 'x'"),
        ([*COIN, "--target", "y"], "no --data was given"),
        ([*COIN, "-o", "/nowhere/at/all.nc"], "Make the folder first"),
        ([*COIN, "-o", "."], "path must be a file, got the folder ."),
        ([*COIN, "-o", "/dev/null"], "path must be a file, got /dev/null, a device or pipe"),
        ([*COIN, "-o", "n" * 300], "a name of 300 characters is too long"),
        (["plot", "n" * 300], "there is no file nnn"),
        (["report", "n" * 300], "there is no file nnn"),
        (["run", "linear_regression", "-m", "exact", "--data", "nowhere.csv"], "nowhere.csv"),
        (["run", "bnn_regression", "-m", "exact"], "has no exact posterior"),
        (["compare", "nowhere.nc", "nothing.nc"], "nowhere.nc"),
        (["compare", "nowhere.nc"], "arguments are required: FIT.nc"),
    ],
)
def test_what_is_wrong_is_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("zoo: ")
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_a_run_without_a_result_says_so_and_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1; twin: a wrong value has 2."""
    words = ["run", "coin_flip", "-m", "nuts", "--opt", "engine=eager", "--opt"]
    assert main([*words, "max_seconds=1e-9"]) == 1
    err = capsys.readouterr().err.splitlines()[-1]
    assert err == (
        "zoo: nuts ended before its first draw (max_seconds=1e-09 reached). Give it more time, or lower warmup."
    )
    assert main([*words, "max_seconds=-1"]) == 2


@pytest.mark.parametrize(
    "error, said",
    [
        (RuntimeError("two\nlines"), "zoo: RuntimeError: two lines ("),
        (AssertionError(), "zoo: AssertionError ("),
        (ZeroDivisionError("division by zero"), "zoo: ZeroDivisionError: division by zero ("),
        (KeyError("w"), "zoo: KeyError: 'w' ("),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "zoo: UnicodeDecodeError: "),
        (csv.Error("field larger than field limit"), "zoo: Error: field larger"),
        (MemoryError(), "zoo: MemoryError ("),
        (OSError(), "zoo: OSError ("),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_error_is_one_line_that_says_how_to_see_more(error, said, capsys, monkeypatch) -> None:
    from zoo.cli.commands import show

    def breaks(args: object) -> int:
        raise error

    monkeypatch.setattr(show, "main", breaks)
    assert main(["show", "coin_flip"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(said)
    assert err.endswith("(zoo --traceback ... shows where)\n")
    with pytest.raises(type(error)):
        main(["--traceback", "show", "coin_flip"])


def test_a_stop_keeps_its_code(capsys, monkeypatch) -> None:
    from zoo.cli.commands import show

    for error, code in ((KeyboardInterrupt(), 130), (SystemExit(143), None)):
        monkeypatch.setattr(show, "main", lambda args, error=error: (_ for _ in ()).throw(error))
        if code is None:
            with pytest.raises(SystemExit, match="143"):
                main(["show", "coin_flip"])
        else:
            assert main(["show", "coin_flip"]) == code
            assert capsys.readouterr().err == "zoo: stopped\n"


def test_a_traceback_on_request() -> None:
    with pytest.raises(ValueError, match="coin_flop"):
        main(["--traceback", "show", "coin_flop"])


def test_the_exit_code_leaves_the_process() -> None:
    done = run("show", "coin_flop")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("zoo: unknown name 'coin_flop'")


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == f"zoo {zoo.__version__}\n"


@pytest.mark.parametrize(
    "text, value",
    [
        ("hidden=100", ("hidden", 100)),
        ("hidden=(50, 50)", ("hidden", (50, 50))),
        ("noise=None", ("noise", None)),
        ("activation=relu", ("activation", "relu")),
        ("init='map'", ("init", "map")),
        ("path=a=b.csv", ("path", "a=b.csv")),
        ("empty=", ("empty", "")),
        ("guide_options={'init_scale': .1}", ("guide_options", {"init_scale": 0.1})),
        ("bias=False", ("bias", False)),
    ],
)
def test_values_are_literals_or_strings(text: str, value: tuple[str, object]) -> None:
    assert parse(text) == value


@pytest.mark.parametrize("text", ["hidden", "=3", "a b=3", "3=4"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected name=value"):
        parse(text)


def test_a_value_given_twice_is_refused() -> None:
    assert options(["a=1", "b=x"], "--set") == {"a": 1, "b": "x"}
    with pytest.raises(ValueError, match="--set a was given twice: 1 and 2"):
        options(["a=1", "a=2"], "--set")


def test_ctrl_c_is_exit_code_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(zoo, "run", stopped)
    assert main(COIN) == 130
    assert capsys.readouterr().err == "zoo: stopped\n"


def test_no_home_or_terminal_is_needed() -> None:
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "40"}
    done = subprocess.run([*PYTHON_M_ZOO, "list"], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0

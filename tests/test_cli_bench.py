"""`zoo bench`: lists the benchmarks of the sources and runs one with its own options."""

from __future__ import annotations

from pathlib import Path

import pytest

from zoo.__main__ import main
from zoo.cli.commands import bench

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def test_without_a_name_every_script_with_a_main_is_listed(capsys) -> None:
    assert main(["bench"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]}
    assert listed == {path.stem for path in BENCHMARKS.glob("*.py") if "\ndef main(" in path.read_text()}
    assert {"samplers", "gradient", "uci", "startup"} <= listed
    assert "side" not in listed


def test_options_and_exit_codes_are_the_scripts_own(capfd) -> None:
    assert main(["bench", "scaling", "--help"]) == 0
    assert "--threads" in capfd.readouterr().out
    assert main(["bench", "scaling", "--sizes", "3"]) == 2


def test_an_unknown_name_gets_the_nearest_one(capsys) -> None:
    assert main(["bench", "sampler"]) == 2
    assert "Did you mean 'samplers'?" in capsys.readouterr().err


def test_an_installed_package_says_where_they_are(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setattr(bench, "FOLDER", tmp_path / "benchmarks")
    assert main(["bench"]) == 2
    assert "Clone the repository" in capsys.readouterr().err


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_every_benchmark_stands_in_the_folders_readme(path) -> None:
    """Files that only serve others need no line."""
    if "\ndef main(" in path.read_text():
        assert f"benchmarks/{path.name}" in (BENCHMARKS / "README.md").read_text()

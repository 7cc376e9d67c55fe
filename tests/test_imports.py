"""Imports point one way and cost nothing.

    guides -> zoo.core, zoo.data -> models | zoo.infer -> zoo.report -> the front door (zoo, __main__, cli)

Only imports at module level count: `Posterior.to_arviz`, for example, imports zoo.report when it is called.
A bare `import zoo` is free: Python runs zoo/__init__ before its submodules anyway, and it loads nothing.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "zoo").rglob("*.py"), *(ROOT / "guides").rglob("*.py")])
# What a layer may import at module level, of this project.
ALLOWED = {
    "guides": {"guides"},
    "core": {"guides", "core"},
    "data": {"core", "data"},
    "model": {"guides", "core", "data"},
    "infer": {"guides", "core", "data", "infer"},
    "report": {"guides", "core", "data", "infer", "report"},
    "front": {"guides", "core", "data", "model", "infer", "report", "front"},
}


def layer(module: str) -> str:
    """The layer of a dotted name of this project."""
    parts = module.split(".")
    if parts[0] == "guides":
        return "guides"
    if len(parts) == 1 or parts[1] in ("__main__", "cli", "__init__"):
        return "front"
    return parts[1] if parts[1] in ALLOWED else "model"


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.AST, path: Path, *, nested: bool) -> Iterator[str]:
    """Dotted names imported by a file: at module level, or anywhere (nested=True)."""
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(tree) if nested else _module_level(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += (node.module or "").split(".") if node.module else []
            # `from zoo import core` imports zoo.core; `from zoo.core import problem` may import a module.
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _module_level(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from _module_level(node)


def upward(source: str, path: Path) -> list[str]:
    """The imports of a file that its layer may not make."""
    own = layer(dotted(path))
    names = [n for n in imported(ast.parse(source), path, nested=False) if n.split(".")[0] in ("zoo", "guides")]
    return [name for name in names if name != "zoo" and layer(name) not in ALLOWED[own]]


@pytest.mark.parametrize("path", FILES, ids=dotted)
def test_imports_point_one_way(path: Path) -> None:
    assert upward(path.read_text(), path) == []


@pytest.mark.parametrize(
    "source, path",
    [
        ("import zoo.core.problem", "guides/normal.py"),
        ("from zoo import core", "guides/normal.py"),
        ("from zoo.infer import density", "zoo/core/problem.py"),
        ("from ..infer.density import density", "zoo/core/problem.py"),
        ("from .. import infer", "zoo/core/problem.py"),
        ("try:\n    import zoo.report.arviz\nexcept ImportError: pass", "zoo/infer/density.py"),
        ("from zoo.bnn_regression import model", "zoo/infer/density.py"),
        ("from zoo.logistic_regression import model", "zoo/bnn_regression.py"),
        ("import zoo.cli.catalogue", "zoo/report/arviz.py"),
    ],
)
def test_an_upward_import_is_seen(source: str, path: str) -> None:
    assert upward(source, ROOT / path)


def test_a_lazy_import_is_no_import() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import zoo.report\n"
    source += "def save():\n    from zoo.report.files import save\n"
    assert upward(source, ROOT / "zoo/core/posterior.py") == []


@pytest.mark.parametrize("path", FILES, ids=dotted)
def test_only_reports_touch_arviz_and_matplotlib(path: Path) -> None:
    used = {name.split(".")[0] for name in imported(ast.parse(path.read_text()), path, nested=True)}
    if "report" not in path.relative_to(ROOT).parts:
        assert not used & {"arviz", "arviz_base", "arviz_stats", "arviz_plots", "matplotlib"}


def loaded_by(code: str) -> set[str]:
    """The top-level packages that a fresh Python has loaded after the code."""
    program = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def test_import_zoo_loads_nothing_heavy() -> None:
    heavy = {"torch", "pyro", "numpy", "arviz", "matplotlib", "xarray", "pandas", "sklearn", "rich"}
    assert not loaded_by("import zoo; zoo.__version__; zoo.names()") & heavy


def test_a_model_loads_no_reports() -> None:
    loaded = loaded_by("import zoo.bnn_regression")
    assert "pyro" in loaded
    assert not loaded & {"arviz", "matplotlib", "xarray", "pandas"}


def test_import_zoo_takes_no_time() -> None:
    """Seconds of the processor, so that a busy machine changes nothing."""
    seconds = []
    for _ in range(3):
        code = "import time; t = time.process_time(); import zoo; print(time.process_time() - t)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
        seconds.append(float(done.stdout))
    assert min(seconds) < 0.05, seconds


def _packages() -> list[str]:
    found = ["zoo", "guides"]
    for root in ("zoo", "guides"):
        package = importlib.import_module(root)
        found += [m.name for m in pkgutil.walk_packages(package.__path__, f"{root}.") if m.ispkg]
    return found


@pytest.mark.parametrize("name", _packages())
def test_no_submodule_hides_a_name_of_its_package(name: str) -> None:
    """Importing a submodule sets it as an attribute of the package, over any function of that name."""
    package = importlib.import_module(name)
    submodules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    exported = {*vars(package), *getattr(package, "_DOORS", {})}
    clashes = {n for n in submodules & exported if getattr(package, n).__class__.__name__ != "module"}
    assert not clashes

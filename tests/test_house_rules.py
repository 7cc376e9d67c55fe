"""The promises about the code itself: short functions, short files, every public function documented."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted([*(ROOT / "zoo").rglob("*.py"), *(ROOT / "guides").rglob("*.py")])
LONGEST_FUNCTION = 35
LONGEST_FILE = 300


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def public_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions of the module and methods of its public classes (an override is documented by its base)."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    classes = [node for node in classes if not node.bases]
    found = [node for holder in (tree, *classes) for node in holder.body if isinstance(node, ast.FunctionDef)]
    return [node for node in found if not node.name.startswith("_")]


def length(function: ast.FunctionDef) -> int:
    """Lines of the body, without the docstring and without functions inside it."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if not body:
        return 0
    lines = (function.end_lineno or 0) - body[0].lineno + 1
    inner = [node for node in ast.walk(function) if isinstance(node, ast.FunctionDef) and node is not function]
    return lines - sum((node.end_lineno or 0) - node.lineno + 1 for node in inner)


def is_model(path: Path, function: ast.FunctionDef) -> bool:
    """A lecture model: its docstring is the file's."""
    return path.parent == ROOT / "zoo" and function.name == "model"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_and_functions_are_short_and_documented(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert len(text.splitlines()) < LONGEST_FILE
    assert ast.get_docstring(tree), "no docstring"
    too_long = {f.name: length(f) for f in functions(tree) if length(f) >= LONGEST_FUNCTION}
    assert not too_long
    bare = [f.name for f in public_functions(tree) if not ast.get_docstring(f) and not is_model(path, f)]
    assert not bare, f"no docstring: {bare}"


def test_a_long_function_is_seen() -> None:
    text = "def f():\n" + "    x = 1\n" * 35
    assert length(functions(ast.parse(text))[0]) == LONGEST_FUNCTION


@pytest.mark.parametrize("name", ["utils", "helpers", "misc", "common"])
def test_no_drawer_for_everything(name: str) -> None:
    assert not [path for path in FILES if path.stem == name]

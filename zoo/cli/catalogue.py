"""What the zoo holds, read from the files' text by `ast`: nothing is imported, so it answers at once."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
METHOD_FOLDERS = ("infer/methods", "infer/kernels")


@dataclasses.dataclass(frozen=True)
class Entry:
    """What one file says of itself.

    Args:
        name: The file's name.
        doc: Its docstring.
        functions: {public function: {argument: default as written, "" where there is none}}.
        constants: Names assigned at module level.
    """

    name: str
    doc: str
    functions: dict[str, dict[str, str]]
    constants: frozenset[str]

    @property
    def names(self) -> set[str]:
        """The functions and the constants (`prepare = labels.binary` makes a function, too)."""
        return {*self.functions, *self.constants}

    @property
    def summary(self) -> str:
        """The first line of the docstring, in one line."""
        return " ".join(self.doc.strip().split("\n\n")[0].split())


def _arguments(function: ast.FunctionDef) -> dict[str, str]:
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args]
    missing = [None] * (len(plain) - len(spec.defaults))
    pairs = [*zip(plain, [*missing, *spec.defaults], strict=True)]
    pairs += [*zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    return {argument.arg: "" if default is None else ast.unparse(default) for argument, default in pairs}


def _constants(tree: ast.Module) -> frozenset[str]:
    targets = [t for node in tree.body if isinstance(node, ast.Assign) for t in node.targets]
    targets += [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    return frozenset(t.id for t in targets if isinstance(t, ast.Name))


def read(path: Path) -> Entry:
    """The entry of one Python file."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    functions = {
        node.name: _arguments(node)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }
    return Entry(path.stem, ast.get_docstring(tree) or "", functions, _constants(tree))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))


def models() -> dict[str, Path]:
    """{model: file}: every plain file in zoo/ is a lecture model."""
    return {path.stem: path for path in _files(ROOT)}


def methods() -> dict[str, Path]:
    """{method: file}: every file in zoo/infer/methods and zoo/infer/kernels is one."""
    return {path.stem: path for folder in METHOD_FOLDERS for path in _files(ROOT / folder)}


def guides() -> dict[str, Path]:
    """{guide: file} of the files in guides/ that hold a public function of the file's own name."""
    found = {path.stem: path for path in _files(ROOT.parent / "guides")}
    return {name: path for name, path in found.items() if name in read(path).functions}


def method_options(path: Path) -> dict[str, str]:
    """{option: default} of a method's file; a kernel's are those of the loop that runs it and of its `setup`."""
    functions = read(path).functions
    if "setup" in functions:
        functions = {"fit": read(ROOT / "infer" / "chains.py").functions["fit"] | functions["setup"]}
    return {k: v for k, v in functions.get("fit", {}).items() if k not in ("problem", "kernel", "dim")}

"""What the zoo holds, read from the files' text by `ast`: nothing is imported, so it answers at once."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

from . import meanings

ROOT = Path(__file__).resolve().parents[1]
METHOD_FOLDERS = ("infer/methods", "infer/kernels")


class Entry:
    """What one file says of itself; each part is read off when it is asked for.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        self._tree = ast.parse(path.read_text(encoding="utf-8"), str(path))

    @property
    def doc(self) -> str:
        """Its docstring."""
        return ast.get_docstring(self._tree) or ""

    @functools.cached_property
    def constants(self) -> dict[str, str]:
        """{name assigned at module level: its value as written}."""
        return _constants(self._tree)

    @functools.cached_property
    def functions(self) -> dict[str, dict[str, str]]:
        """{public function: {argument: its default}}.

        A default, "" where there is none, is as written, or the value of a constant of the file or of one it imports.
        """
        known = _imported(self._tree) | self.constants
        return {node.name: _arguments(node, known) for node in _public(self._tree)}

    @property
    def docs(self) -> dict[str, str]:
        """{public function: its docstring}."""
        return {node.name: ast.get_docstring(node) or "" for node in _public(self._tree)}

    @property
    def names(self) -> set[str]:
        """The functions and the constants (`prepare = labels.binary` makes a function, too)."""
        return {*(node.name for node in _public(self._tree)), *self.constants}

    @property
    def summary(self) -> str:
        """The first line of the docstring, in one line."""
        return " ".join(self.doc.strip().split("\n\n")[0].split())


def _public(tree: ast.Module) -> list[ast.FunctionDef]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def _arguments(function: ast.FunctionDef, known: dict[str, str]) -> dict[str, str]:
    spec = function.args
    plain = [*spec.posonlyargs, *spec.args]
    missing = [None] * (len(plain) - len(spec.defaults))
    pairs = [*zip(plain, [*missing, *spec.defaults], strict=True)]
    pairs += [*zip(spec.kwonlyargs, spec.kw_defaults, strict=True)]
    written = {argument.arg: "" if default is None else ast.unparse(default) for argument, default in pairs}
    return {name: known.get(default, default) for name, default in written.items()}


def _constants(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {t.id: ast.unparse(node.value) for t in targets if isinstance(t, ast.Name)}
    return found


def _imported(tree: ast.Module) -> dict[str, str]:
    """{CONSTANT: its value} of those that the file imports from others of the zoo by `from zoo... import CONSTANT`."""
    found: dict[str, str] = {}
    for node in tree.body:
        names = [a.name for a in node.names if a.name.isupper()] if isinstance(node, ast.ImportFrom) else []
        if names and isinstance(node, ast.ImportFrom) and not node.level:
            source = (ROOT.parent / Path(*(node.module or "").split("."))).with_suffix(".py")
            values = _constants(ast.parse(source.read_text(encoding="utf-8"))) if source.is_file() else {}
            found |= {name: values[name] for name in names if name in values}
    return found


def read(path: Path) -> Entry:
    """The entry of one Python file."""
    return Entry(path)


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
    return {name: path for name, path in found.items() if name in read(path).docs}


def kinds() -> dict[str, Path]:
    """{kind of picture: file}: every file in zoo/report/kinds is one."""
    return {path.stem: path for path in _files(ROOT / "report" / "kinds")}


def method_options(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """{option: default} and {option: what it means} of a method's file, and of `zoo.run` for all methods.

    A kernel's are those of the loop that runs it and of its `setup`.
    """
    entry = read(path)
    defaults, means = entry.functions.get("fit", {}), meanings.arguments(entry.docs.get("fit", ""))
    if "setup" in entry.functions:
        loop = read(ROOT / "infer" / "chains.py")
        defaults = loop.functions["fit"] | entry.functions["setup"]
        means = meanings.arguments(loop.docs["fit"]) | meanings.arguments(entry.docs["setup"])
    run = read(ROOT / "infer" / "dispatch.py")
    defaults, means = defaults | run.functions["run"], means | meanings.arguments(run.docs["run"])
    return {k: v for k, v in defaults.items() if k not in ("problem", "method", "kernel", "dim")}, means

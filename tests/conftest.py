"""Which tests run here, how many do not and why, and the check that no test leaves the process changed.

What cannot run here (data, gpu, browser, python312) or was not asked for (slow) is deselected and counted,
never skipped: a skip looks like a test that ran.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

COUNTS = pytest.StashKey[Counter]()


def _cuda() -> bool:
    import torch

    return torch.cuda.is_available()


# marker: (why it is left out, whether it can run here)
TIERS = {
    "data": ("need $ZOO_DATA", lambda: bool(os.environ.get("ZOO_DATA"))),
    "gpu": ("need a CUDA device", _cuda),
    "browser": ("need Chromium", lambda: bool(shutil.which("chromium") and shutil.which("chromedriver"))),
    "python312": ("need Python 3.12", lambda: sys.version_info >= (3, 12)),
}
SLOW = "are slow (--slow, or make test-slow)"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[COUNTS] = Counter()
    data = os.environ.get("ZOO_DATA")
    if data and not Path(data).is_dir():
        raise pytest.UsageError(f"ZOO_DATA must be a folder, got {data!r}. Unset it to leave those tests out.")


def _reason(item: pytest.Item, slow: bool, can_run: dict[str, bool]) -> str:
    """Why a test is left out, or "" where it runs."""
    for marker, (reason, _) in TIERS.items():
        if item.get_closest_marker(marker) and not can_run[marker]:
            return reason
    return SLOW if item.get_closest_marker("slow") and not slow else ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects; a marker expression (-m) chooses slow tests itself."""
    slow = config.getoption("--slow") or bool(config.getoption("markexpr"))
    used = {marker for marker in TIERS if any(item.get_closest_marker(marker) for item in items)}
    can_run = {marker: TIERS[marker][1]() for marker in used}
    reasons = [_reason(item, slow, can_run) for item in items]
    left_out = [item for item, reason in zip(items, reasons, strict=True) if reason]
    config.stash[COUNTS].update(reason for reason in reasons if reason)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item, reason in zip(items, reasons, strict=True) if not reason]
    if hasattr(config, "workeroutput"):  # a process of pytest-xdist: the counts travel to the one that reports
        config.workeroutput["left_out"] = dict(config.stash[COUNTS])


def _line(counts: Counter) -> str:
    return "deselected: " + (", ".join(f"{n} {reason}" for reason, n in sorted(counts.items())) or "0")


def pytest_report_collectionfinish(config: pytest.Config) -> str:
    """The counts, in the header."""
    return _line(config.stash[COUNTS])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every process of pytest-xdist collects all tests: the counts of one are the counts."""
    node.config.stash[COUNTS] = Counter(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The counts once more, beside the result (pytest-xdist's header has none)."""
    terminalreporter.write_line(_line(config.stash[COUNTS]))


@pytest.fixture(scope="session")
def zoo_data() -> Path:
    """The folder of real data, for tests marked `data`."""
    return Path(os.environ["ZOO_DATA"])


def _process_state() -> dict[str, Any]:
    """What the zoo promises to leave as it found it; nothing where Pyro is not loaded yet."""
    if "pyro" not in sys.modules:
        return {}
    import pyro
    import torch

    return {
        "torch's default dtype": torch.get_default_dtype(),
        "torch's default device": str(torch.get_default_device()),
        "torch's threads": torch.get_num_threads(),
        "torch's gradient mode": torch.is_grad_enabled(),
        "torch.distributions' validation": torch.distributions.Distribution._validate_args,
        "Pyro's validation in poutine": pyro.poutine.util.is_validation_enabled(),
        "Pyro's validation in infer": pyro.infer.util.is_validation_enabled(),
        "Pyro's handler stack": len(pyro.poutine.runtime._PYRO_STACK),
        "the param store": {name: id(value) for name, value in pyro.get_param_store()._params.items()},
    }


@pytest.fixture(autouse=True)
def nothing_global_changed() -> Iterator[None]:
    """Fails a test that leaves a global switch, the handler stack or the param store changed."""
    before = _process_state()
    yield
    after = _process_state() if before else {}
    if not after.get("the param store"):
        before.pop("the param store", None)  # emptied is fine
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    if changed:
        _restore(before)
        pytest.fail(f"left changed (before, after): {changed}")


def _restore(before: dict[str, Any]) -> None:
    """Puts the switches back, so that one culprit fails and not all that follow it."""
    import pyro
    import torch

    torch.set_default_dtype(before["torch's default dtype"])
    torch.set_num_threads(before["torch's threads"])
    torch.set_grad_enabled(before["torch's gradient mode"])
    torch.set_default_device(before["torch's default device"])
    pyro.enable_validation(before["Pyro's validation in infer"])
    torch.distributions.Distribution.set_default_validate_args(before["torch.distributions' validation"])
    del pyro.poutine.runtime._PYRO_STACK[before["Pyro's handler stack"] :]
    pyro.clear_param_store()

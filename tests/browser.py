"""Headless Chromium by chromedriver's own protocol (W3C WebDriver: JSON over HTTP on this machine), nothing to install.

`page(path)` opens a file and yields functions of a session: evaluate JavaScript, press keys, read the console.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--window-size=1280,720",
)  # fmt: skip
# Where the keyboard's special keys are in WebDriver.
KEYS = {"right": "\ue014", "space": " ", "tab": "\ue004"}
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Page(NamedTuple):
    """A page in a browser."""

    url: str

    def post(self, path: str, **body: Any) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with _DIRECT.open(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def evaluate(self, expression: str) -> Any:
        return self.post("/execute/sync", script=f"return {expression}", args=[])

    def press(self, key: str) -> None:
        """Holds a key down and lets it go, wherever the focus is."""
        value = KEYS.get(key, key)
        actions = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self.post("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def text(self, element: str) -> str:
        return self.evaluate(f"document.getElementById({element!r}).textContent")

    def console(self) -> list[str]:
        """What the console has been told since it was last asked."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.post("/se/log", type="browser")]


@contextlib.contextmanager
def _driver() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as home:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=home
        )
        assert driver.stdout is not None
        try:
            port = next(found[1] for line in driver.stdout if (found := re.search(r"successfully on port (\d+)", line)))
            yield f"http://127.0.0.1:{port}/session"
        finally:
            driver.terminate()
            driver.wait()
            driver.stdout.close()


@contextlib.contextmanager
def page(path: Path) -> Iterator[Page]:
    """Opens a file in a browser of its own."""
    with _driver() as url, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = {"args": [*FLAGS, f"--user-data-dir={profile}"]}
        always = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        session = Page(url).post("", capabilities={"alwaysMatch": always})
        opened = Page(f"{url}/{session['sessionId']}")
        try:
            opened.post("/url", url=path.absolute().as_uri())
            yield opened
        finally:
            _DIRECT.open(urllib.request.Request(opened.url, method="DELETE"), timeout=60).close()

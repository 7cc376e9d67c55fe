"""Milliseconds of `import zoo`, `zoo list` and `zoo show`, from a cold process, median of ten.

python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python itself": ["-c", "pass"],
    "import zoo": ["-c", "import zoo"],
    "zoo list": ["-m", "zoo", "list"],
    "zoo show": ["-m", "zoo", "show", "bnn_regression"],
}


def milliseconds(command: list[str]) -> float:
    """Median wall-clock milliseconds of ten runs."""
    found = []
    for _ in range(10):
        begun = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        found.append((time.perf_counter() - begun) * 1e3)
    return statistics.median(found)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    for name, command in COMMANDS.items():
        print(f"{name:14} {milliseconds(command):6.0f} ms")


if __name__ == "__main__":
    main()

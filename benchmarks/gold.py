"""Makes every shipped gold again by the command it names: seconds, and the largest difference from what is shipped.

python benchmarks/gold.py                                  # all, two at once, in one go
python benchmarks/gold.py --names coin_flip --seed 11      # another seed: the difference is then Monte Carlo error

The difference is of means and mean squares, in combined Monte Carlo errors, with its limit (`zoo.report.certificates`).
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from side import machine


def made_again(name: str, seed: int, folder: str) -> str:
    """A line of the table; the command's last words where it refused."""
    from zoo.core.no_result import NoResult
    from zoo.report.certificates import agreement
    from zoo.report.gold import open_gold

    shipped, begun = open_gold(name), time.monotonic()
    words = shlex.split(shipped.facts["command"])[1:]
    words[words.index("--seed") + 1] = str(seed)
    done = subprocess.run(
        [sys.executable, *words, "-o", folder], env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    seconds = time.monotonic() - begun
    if done.returncode:
        return f"{name:28}{seconds:7.0f}  {done.stderr.strip().splitlines()[-1]}"
    again = open_gold(Path(folder) / f"{name}.json")
    try:
        found = agreement(shipped.facts["quantities"], again.facts["quantities"], name)
    except NoResult as error:
        return f"{name:28}{seconds:7.0f}  {error}"
    return f"{name:28}{seconds:7.0f}{found['largest_z']:8.2f}{found['limit']:7.2f}"


def main() -> None:
    from zoo.report.gold import folder, open_gold

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join(sorted(path.stem for path in folder().glob("*.json"))))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=2)
    args = parser.parse_args()
    # The longest first, so that none is left alone at the end.
    names = sorted(args.names.split(","), key=lambda name: -open_gold(name).facts["run"]["seconds"])
    print(f"{machine()}, {args.at_once} at once", f"{'gold':28}{'s':>7}{'z':>8}{'limit':>7}", sep="\n", flush=True)
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as into,
        concurrent.futures.ThreadPoolExecutor(args.at_once) as pool,
    ):
        for line in pool.map(lambda name: made_again(name, args.seed, into), names):
            print(line, flush=True)
    print(f"{'all':28}{time.monotonic() - begun:7.0f}")


if __name__ == "__main__":
    main()

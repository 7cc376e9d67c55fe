"""Seconds of `zoo report` on a gold standard of 4 x 1,000 draws and two approximations; the promise is < 20 s.

python benchmarks/report.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from side import machine

import zoo

PROMISED = 20.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="bnn_classification")
    parser.add_argument("--draws", type=int, default=1000, help="of each of the gold standard's four chains")
    args = parser.parse_args()
    problem = zoo.load(args.model)
    gold = zoo.run(problem, "nuts", draws=args.draws, warmup=400, progress=False)
    fits = [gold, zoo.run(problem, "svi", progress=False), zoo.run(problem, "laplace", progress=False)]
    print(f"{machine()}: {args.model}, nuts 4 x {args.draws}, svi, laplace")
    with tempfile.TemporaryDirectory() as folder:
        files = [str(fit.save(Path(folder) / f"{fit.method}.nc")) for fit in fits]
        for name, sources in (("fits in memory", fits), ("files", files)):
            begun = time.perf_counter()
            page = zoo.write_report(sources, Path(folder) / "report.html")
            size = page.stat().st_size / 1e6
            print(f"{name:16}{time.perf_counter() - begun:7.1f} s, {size:.1f} MB; promised {PROMISED:g} s", flush=True)


if __name__ == "__main__":
    main()

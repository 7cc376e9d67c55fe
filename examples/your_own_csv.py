"""Your own table: text, gaps and large offsets in; predictions of raw rows in original units out.

Look for: rows with gaps are counted before they go; weights are per standardised column, but everything predicted
is in euros; about 95 % of the held-out prices lie inside the 95 % intervals, far closer than to their mean.

Source: Thome, "Bayesian linear regression".
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from pathlib import Path

import numpy as np

import zoo
from zoo.data import tables

DISTRICT = {"centre": 90_000.0, "north": 0.0, "south": 30_000.0}


def write(path: Path, rows: int) -> None:
    """price = 10^6 + 2,000 area + district + N(0, 15,000); year with an offset of 10^8, every 20th area is missing."""
    rng = np.random.default_rng(0)
    area, district, year = rng.uniform(30, 150, rows), rng.choice(list(DISTRICT), rows), rng.integers(0, 60, rows)
    price = 1e6 + 2000 * area + np.vectorize(DISTRICT.get)(district) + 15_000 * rng.normal(size=rows)
    cells = ["" if i % 20 == 7 else f"{value:.1f}" for i, value in enumerate(area)]
    lines = [f"{c},{d},{100_000_000 + y},{p:.0f}" for c, d, y, p in zip(cells, district, year, price, strict=True)]
    path.write_text("\n".join(["area,district,built,price", *lines]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="a table of your own")
    parser.add_argument("--quick", action="store_true")
    rows = 200 if parser.parse_args().quick else 2000
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with tempfile.TemporaryDirectory() as folder:
        write(path := Path(folder) / "houses.csv", rows)
        data = tables.load(path, "price", missing="drop", seed=1)
    fit = zoo.run(zoo.load("linear_regression", data, noise=None), "laplace", draws=2000, seed=0)
    y = fit.predict(data.x_test)["y"].flatten(0, 1).double()
    low, high = y.quantile(0.025, 0), y.quantile(0.975, 0)
    truth = data.info["y_loc"] + data.info["y_scale"] * data.y_test.double()
    inside = float(((low < truth) & (truth < high)).double().mean())
    rmse, plain = (float((truth - guess).square().mean().sqrt()) for guess in (y.mean(0), data.info["y_loc"]))
    print(f"held out: RMSE {rmse:,.0f} euros (the mean: {plain:,.0f}); {inside:.0%} inside the 95 % intervals")
    new = fit.predict({"area": [50.0, 100.0], "district": ["north", "centre"], "built": [1e8 + 20, 1e8 + 20]})
    prices = new["mean"].mean((0, 1)).double()
    print(f"50 m2 in the north, 100 m2 in the centre: {prices[0]:,.0f} and {prices[1]:,.0f} euros")
    assert rmse < 0.4 * plain
    assert 0.85 <= inside <= 1.0
    assert np.allclose(prices, [1_100_000.0, 1_290_000.0], rtol=0, atol=15_000)


if __name__ == "__main__":
    main()

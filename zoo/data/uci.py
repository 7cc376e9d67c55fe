"""UCI's regression tables with the published splits of Gal & Ghahramani, and German credit: read from $ZOO_DATA.

    $ZOO_DATA/uci/<folder>/data.txt                             numbers between blanks, the target last
    $ZOO_DATA/german_credit/german_credit_numeric.csv           25 columns of whole numbers, the class last

Splits: NumPy's legacy generator with seed 1 permutes the n rows once for each split, one after another; the first
round(.9 n) rows of a permutation train, the rest are held out.

Source: Gal & Ghahramani 2016, "Dropout as a Bayesian approximation", section 5.3; UCI Machine Learning Repository.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.core.words import nearest

if TYPE_CHECKING:
    from zoo.core.problem import Data

    from .columns import Table


class Source(NamedTuple):
    """One table: its file, its columns (the target last), its splits, and what OpenML calls it."""

    file: str
    shape: tuple[int, int]
    splits: int
    columns: str
    openml: str
    classify: bool = False


SETS = {
    "boston": Source(
        "uci/bostonHousing/data.txt", (506, 14), 20,
        "CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV", "boston",
    ),
    "concrete": Source(
        "uci/concrete/data.txt", (1030, 9), 20,
        "cement slag fly_ash water superplasticizer coarse_aggregate fine_aggregate age strength", "Concrete_Data",
    ),
    "kin8nm": Source(
        "uci/kin8nm/data.txt", (8192, 9), 20,
        "theta1 theta2 theta3 theta4 theta5 theta6 theta7 theta8 distance", "kin8nm",
    ),
    "protein": Source(
        "uci/protein-tertiary-structure/data.txt", (45730, 10), 5,
        "F1 F2 F3 F4 F5 F6 F7 F8 F9 RMSD", "physicochemical-protein",
    ),
    "yacht": Source(
        "uci/yacht/data.txt", (308, 7), 20,
        "buoyancy prismatic length_displacement beam_draught length_beam froude resistance", "yacht_hydrodynamics",
    ),
    "german_credit": Source(
        "german_credit/german_credit_numeric.csv", (1000, 25), 20,
        " ".join([*(f"a{i}" for i in range(1, 25)), "class"]), "credit-g", True,
    ),
}  # fmt: skip


def load(name: str, split: int | None = 0, *, source: str = "files") -> Data:
    """One of UCI's tables, split as published and standardised with the training rows.

    Constant columns are left out and said. German credit has no published split (the same scheme is used); its
    published posterior is that of all rows, split=None. Its classes "1" (good) and "2" (bad) are y = 0 and 1.

    Args:
        name: boston, concrete, kin8nm, protein, yacht, german_credit.
        split: 0 ... 19 (protein: 0 ... 4), or None: all rows train, none are held out.
        source: "files" ($ZOO_DATA), or "openml": fetched over the network by scikit-learn. OpenML's rows may
            stand in another order, so that its splits are not the published ones; its German credit is the table
            with text columns.

    Returns:
        `Data` as of `zoo.data.tables.load`.

    Raises:
        ValueError: For an unknown name or split, and where there is no such file or no network.
    """
    import numpy as np

    from .ready import ready

    if name not in SETS:
        raise ValueError(nearest(str(name), SETS, "UCI set"))
    _check_split(name, split)
    if source not in ("files", "openml"):
        raise ValueError(f"source must be 'files' or 'openml', got {source!r}.")
    table = _from_files(name) if source == "files" else _from_openml(name)
    n = table.rows
    order, cut = np.arange(n), n
    if split is not None:
        generator, cut = np.random.RandomState(1), round(0.9 * n)
        for _ in range(split + 1):
            order = generator.choice(n, n, replace=False)
    return ready(table, [table.names[-1]], (order[:cut], order[cut:]), classify=SETS[name].classify, drop=True)


def _check_split(name: str, split: Any) -> None:
    count = SETS[name].splits
    if split is not None and (isinstance(split, bool) or not isinstance(split, int) or not 0 <= split < count):
        raise ValueError(f"{name} has the splits 0 ... {count - 1} (None: all rows train), got {split!r}.")


def path(name: str) -> Path:
    """Where a table lies below $ZOO_DATA; ValueError where there is none."""
    found = SETS[name]
    folder = os.environ.get("ZOO_DATA")
    advice = f"Put it there, or fetch it over the network: zoo.data.uci.load('{name}', source='openml')."
    if not folder:
        raise ValueError(f"{name} is read from $ZOO_DATA/{found.file}, and ZOO_DATA is not set. {advice}")
    file = Path(folder) / found.file
    if not file.is_file():
        raise ValueError(f"{name} is read from {file}, and there is no such file. {advice}")
    return file


def _from_files(name: str) -> Table:
    import numpy as np

    from .columns import Table

    found, file = SETS[name], path(name)
    try:
        rows = np.loadtxt(file, delimiter="," if file.suffix == ".csv" else None, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{file} is not the table of {name}: {' '.join(str(error).split())}") from None
    _check_shape(name, rows.shape, found.shape, str(file))
    columns: dict[str, Any] = {column: rows[:, i] for i, column in enumerate(found.columns.split())}
    return Table(columns, f"UCI {name}")


def _from_openml(name: str) -> Table:
    from .bundled import scikit_learn
    from .files import read

    fetch = scikit_learn("fetching from OpenML").fetch_openml
    try:
        bunch = fetch(SETS[name].openml, version=1, as_frame=True, parser="auto")
    except OSError as error:  # urllib's errors and timeouts
        words = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"{name} could not be fetched from OpenML ({words}). Set ZOO_DATA to read it.") from None
    frame = bunch.frame
    inputs = [column for column in frame.columns if column not in bunch.target_names]
    table = read(frame[[*inputs, *bunch.target_names]])
    # OpenML's German credit has 20 columns, some of text, where the numeric coding has 24.
    want = (1000, 21) if SETS[name].classify else SETS[name].shape
    _check_shape(name, (table.rows, len(table.names)), want, "OpenML")
    return table._replace(source=f"OpenML {SETS[name].openml}")


def _check_shape(name: str, got: tuple[int, ...], want: tuple[int, ...], where: str) -> None:
    if tuple(got) != want:
        raise ValueError(f"{where} holds a table of {got[0]} x {got[1]}, not the {want[0]} x {want[1]} of {name}.")

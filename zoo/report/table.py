"""A comparison as text: an aligned table of at most 110 columns, and a sentence a method."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import pandas as pd

WIDTH = 110


def number(value: float, digits: int = 2) -> str:
    """A short number: "-" for missing, "inf", no more than 6 characters for usual sizes."""
    if value != value:
        return "-"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value != 0 and abs(value) < 10.0**-digits:
        return f"{value:.0e}".replace("e-0", "e-")
    if abs(value) >= 1e5:
        return f"{value:.0e}".replace("e+0", "e")
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.{digits}f}"


def significant(value: float) -> str:
    """At least four significant digits, for what is in the data's own units, however large; "-" for missing."""
    if value != value:
        return "-"
    if 1e4 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.4g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def _inside(row: dict[str, Any]) -> str:
    shares = [row[f"in{level}"] for level in (50, 80, 95)]
    return "-" if shares[0] != shares[0] else "/".join(f"{100 * share:.0f}" for share in shares)


def _cells(row: dict[str, Any], score: str) -> list[str]:
    return [
        str(row["method"])[:14],
        f"{row['chains']}x{row['draws']}",
        number(row["off"]),
        number(row["z"], 1),
        number(row["sd_ratio"]),
        number(row["w1"], 3),
        number(row["w1_floor"], 3),
        _inside(row),
        number(row[score], 3),
        number(row["log_lik"], 3),
        number(row["min_ess"], 0),
        number(row["ess_per_s"], 1),
        number(row["rhat_f"]),
        number(row["rhat_w"]),
        number(row["seconds"], 1),
    ]


JOINT = {
    "sw2": ("SW2", "sliced 2-Wasserstein distance"),
    "sw2_floor": ("floor", "of as many gold draws"),
    "energy": ("energy", "energy distance"),
    "mmd": ("MMD", "maximum mean discrepancy, Gaussian kernel"),
    "mmd_p": ("p", "chance of such an MMD between draws of gold"),
    "agreement": ("agree", "share of rows of equal most probable class"),
    "tv": ("TV", "mean total variation of class probabilities"),
    "khat": ("k-hat", "shape of the tail of p/q, good below 0.7"),
    "elbo_gap": ("ELBO gap", "log evidence - ELBO, nats"),
}


def joint_table(frame: pd.DataFrame) -> list[str]:
    """What is of all coordinates together, and of q's own density, as a second table; [] where there is none of it."""
    head, rows, legend, said = joint_cells(frame)
    return [_aligned([head, *rows]), wrap(legend), *([wrap(said)] if said else [])] if rows else []


def joint_cells(frame: pd.DataFrame) -> tuple[list[str], list[list[str]], str, str]:
    """The second table's head, rows, legend, and why some cells are "-"; no rows where there is nothing to show."""
    shown = {name: short for name, (short, _) in JOINT.items() if not frame[name].isna().all()}
    if not shown:
        return [], [], "", ""
    rows = [[row["method"][:14], *(number(row[n], 3) for n in shown)] for row in frame.to_dict("records")]
    legend = "; ".join(f"{short}: {JOINT[name][1]}" for name, short in shown.items())
    if (frame["khat"] == -math.inf).any():
        legend += "; k-hat -inf: p/q is the same at all draws, q is p"
    if "sw2" in shown:
        legend += "; SW2 to p are of all coordinates jointly, in gold sds"
    return ["method", *shown.values()], rows, f"{legend}.", _missing(frame, list(shown.values()))


def _missing(frame: pd.DataFrame, shown: list[str]) -> str:
    """Why some of what is shown is "-", and of which methods."""
    said: dict[str, list[str]] = {}
    for row in frame.to_dict("records"):
        for what, _, why in (reason.partition(": ") for reason in row["missing"].split("; ") if reason):
            if names := [name for name in what.split(", ") if name in shown]:
                said.setdefault(f"{' and '.join(names)}: {why}", []).append(row["method"])
    return "".join(f"No {reason} ({', '.join(methods)}). " for reason, methods in said.items()).strip()


def _aligned(lines: list[list[str]]) -> str:
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    gap = "  " if sum(widths) + 2 * len(widths) <= WIDTH else " "
    return "\n".join(
        gap.join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def table(frame: pd.DataFrame) -> str:
    """The frame of a `Comparison`, aligned, with a legend."""
    head, rows, legend = cells(frame)
    return "\n".join([_aligned([head, *rows]), wrap(legend)])


def cells(frame: pd.DataFrame) -> tuple[list[str], list[list[str]], str]:
    """The first table's head, rows and legend."""
    rows = frame.to_dict("records")
    score = "rmse" if frame["accuracy"].isna().all() else "accuracy"
    short = {"rmse": "RMSE", "accuracy": "acc."}[score]
    head = ["method", "draws", "off", "z", "sd", "W1", "floor", "in"]
    head += [short, "loglik", "ESS", "ESS/s", "Rf", "Rw", "s"]
    return head, [_cells(row, score) for row in rows], _legend(rows, short)


def _legend(rows: list[dict[str, Any]], short: str) -> str:
    on = {"test": "test", "train": "training"}.get(rows[0]["scored_on"])
    scored = f"{short}, loglik: {on} rows, original units; " if on else ""
    return (
        "off: largest difference of means in gold sds; z: largest in Monte Carlo errors; sd: median ratio to "
        "gold's; W1: median 1-Wasserstein in gold sds (floor: of as many gold draws); in: % of gold's draws "
        f"inside central 50/80/95 % intervals; {scored}Rf, Rw: R-hat of f, of weights; s: seconds."
    )


def wrap(text: str) -> str:
    """A sentence in lines of at most 110 columns; further lines are indented."""
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def sentence(row: dict[str, Any], sites: pd.DataFrame) -> str:
    """What a method's distances mean, in one sentence."""
    own = sites[sites["method"] == row["method"]]
    worst = own.loc[own["off"].abs().idxmax()]
    parts = []
    for word in ("over-confident", "under-confident"):
        if word in row["verdict"]:
            parts.append(f"{word} (median sd {number(row['sd_ratio'])} of gold's)")
    if "wrong" in row["verdict"]:
        parts.append(f"wrong ({worst['coordinate']} is {number(abs(worst['off']))} gold sds off)")
    if not parts:
        agrees = "agrees with gold" if row["verdict"] == "agrees" else "not judged, being another posterior than gold's"
        parts.append(
            f"{agrees} (median sd ratio {number(row['sd_ratio'])}, largest difference of means "
            f"{number(row['off'])} gold sds, at {worst['coordinate']})"
        )
    out = f"{row['method']}: {' and '.join(parts)}."
    constants = own[own["constant"]]
    if len(constants):
        names = ", ".join(constants["coordinate"].head(3)) + (", ..." if len(constants) > 3 else "")
        out += f" Constant in gold: {names}."
    if row["points"]:
        out += f" Point estimates: {row['points']}."
    return out if row["outcome"] == "ok" else f"{out} Not ok: {row['outcome']}"

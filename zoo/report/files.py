"""`save` and `open`: a posterior in one netCDF file, the same under both ArviZ generations; no pickle.

Layout (`zoo_format` 1): root attributes `zoo_format`, `zoo` (one JSON string: problem, hyperparameters,
settings, names of axes) and `zoo_sha256` (of that string and all arrays). Groups that ArviZ knows: posterior,
sample_stats, warmup_posterior, warmup_sample_stats, observed_data, constant_data, predictions_constant_data; for
a user's own model also posterior_predictive, predictions and log_likelihood, because the file can't bring the
model. Groups of the zoo's own: zoo_data (the data as given), zoo_history, zoo_params (a guide's parameters), zoo_test.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import xarray as xr

from zoo.core.local import guide_of
from zoo.core.paths import path_of, target_file
from zoo.core.posterior import Posterior

from .contents import Groups, pack, unpack
from .encode import to_json
from .groups import CAP
from .stored import Stored

log = logging.getLogger("zoo")

FORMAT = 1


def save(posterior: Posterior, path: str | Path) -> Path:
    """Writes a posterior to a netCDF file, whole or not at all.

    More than 1e8 values of draws are thinned, with a message.

    Args:
        posterior: Any method's result.
        path: File to write; an existing one is replaced, and where it is a link, the file it points to.

    Returns:
        The path.

    Raises:
        ValueError: For a path that is a folder or a device, or in a folder that does not exist.
        OSError: Where the disk is full or the folder may not be written; nothing is left behind.
        TypeError: For what is no path, and a lecture model's hyperparameter that a file can't hold.
    """
    path = path_of(path)
    target = target_file(path)
    facts, groups = pack(thinned(posterior, CAP))
    text = to_json(facts)
    root = xr.Dataset(attrs={"zoo_format": FORMAT, "zoo": text, "zoo_sha256": digest(text, groups)})
    tree = xr.DataTree.from_dict({"/": root, **groups})
    # In memory first: HDF5 brings the process down where a write fails half-way.
    write_whole(target, path, tree.to_netcdf(None, engine="h5netcdf"))
    return path


def write_whole(target: Path, path: Path, content: Any) -> None:
    """Puts a file of these bytes at `target` by one atomic rename; a failure leaves what was there before."""
    # In the same folder, so that it can be renamed; named at random, so that two threads never share one.
    part = target.with_name(f".zoo-{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        advice = "Free some space, or choose a folder that you may write in."
        raise type(error)(f"{path} can't be written: {error.strerror or error}. {advice}") from error
    finally:
        with contextlib.suppress(OSError):  # of a disk that can't be written, what was said above is to be heard
            part.unlink()


def open(
    path: str | Path, model: Callable[..., Any] | None = None, *, guide: Callable[..., Any] | None = None
) -> Posterior:
    """Opens a fit that `Posterior.save` wrote, on the CPU.

    Only the zoo's own models are imported. A fit of your own model opens without it: draws, comparison,
    ArviZ, pictures and predictions at the training and test inputs are there, but new inputs need `model`.

    Args:
        path: The file.
        model: Your model, for a fit of your own.
        guide: The guide factory that it was fitted with by svi, for a model whose rows have latents: what `encode`,
            `reconstruct`, `zoo.bound` and `zoo.log_marginal` ask. The zoo's own models bring theirs.

    Raises:
        FileNotFoundError: Where there is no such file.
        TypeError: For what is no path.
        ValueError: For a file that is not a zoo fit, is cut off, was changed, or does not fit the model.
    """
    path = path_of(path)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path}. zoo.open reads what Posterior.save wrote.")
    attrs, groups = _read(path)
    if "zoo_format" not in attrs or "zoo" not in attrs:
        raise ValueError(
            f"{path} was not written by Posterior.save: it has no zoo_format. ArviZ's own: arviz.from_netcdf."
        )
    if attrs["zoo_format"] != FORMAT:
        raise ValueError(
            f"{path} has zoo_format {attrs['zoo_format']}, this zoo reads {FORMAT}. Open it with a newer one."
        )
    if not _whole(attrs, groups):
        raise ValueError(f"{path} was changed or damaged after it was written (checksum). Save the fit anew.")
    try:
        posterior = unpack(json.loads(attrs["zoo"]), groups, model)
        return posterior if guide is None else _with_guide(posterior, guide)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{path} can't be opened: {' '.join(str(error).split())}") from error


def _with_guide(posterior: Posterior, guide: Callable[..., Any]) -> Posterior:
    """The fit with the guide that made it; ValueError where the model is missing, or the guide is another one."""
    if isinstance(posterior, Stored):
        raise ValueError("a guide needs its model. Give both: zoo.open(path, model=your_model, guide=your_guide)")
    out = dataclasses.replace(posterior, problem=dataclasses.replace(posterior.problem, guide=guide))
    guide_of(out)
    return out


def _forget(error: BaseException) -> None:
    """Marks h5netcdf files that failed half-way as closed: else they fail again, on stderr, when they are freed."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        half_open = frame.f_locals.get("self")
        if isinstance(half_open, h5netcdf.File):
            half_open._closed = True


def _read(path: Path) -> tuple[dict[str, Any], Groups]:
    """Root attributes and all groups, in memory; the file is closed."""
    try:
        h5py.File(path, "r").close()
        with h5netcdf.File(path, "r") as file:
            names, attrs = list(file.groups), dict(file.attrs)
        # Group by group: a data tree that fails half-way leaves its file open.
        return attrs, {name: xr.load_dataset(path, group=name, engine="h5netcdf") for name in names}
    except Exception as error:  # HDF5, xarray and h5netcdf each say in their own way that a file is none
        _forget(error)
        reason = " ".join(str(error).split())[:120]
        raise ValueError(f"{path} is no netCDF file, or is cut off ({reason}). Save the fit anew.") from None


def _whole(attrs: dict[str, Any], groups: Groups) -> bool:
    """Whether the content has the checksum it was written with; damaged text may be no text at all."""
    try:
        return bool(attrs.get("zoo_sha256") == digest(str(attrs["zoo"]), groups))
    except UnicodeError:
        return False


def digest(text: str, groups: Groups) -> str:
    """SHA-256 of the JSON string and of every array: name, dtype, shape and bytes."""
    out = hashlib.sha256(text.encode())
    for group in sorted(groups):
        for name in sorted(map(str, groups[group].data_vars)):
            values = np.ascontiguousarray(groups[group][name].values)
            out.update(f"{group}/{name} {values.dtype.str} {values.shape}".encode())
            out.update(values.tobytes())
    return out.hexdigest()


def thinned(posterior: Posterior, cap: int) -> Posterior:
    """The posterior with every k-th draw, where its draws hold more than `cap` values; says so."""
    kept = posterior.warmup or {}
    total = sum(value.numel() for value in (*posterior.draws.values(), *kept.get("draws", {}).values()))
    if total <= cap:
        return posterior
    step = -(-total // cap)
    log.warning("%g values of draws are more than a file's %g: every %d. draw is kept.", total, cap, step)

    def every(value: Any) -> Any:
        return value[:, ::step] if value is not None and value.dim() >= 2 else value

    return dataclasses.replace(
        posterior,
        draws={n: every(v) for n, v in posterior.draws.items()},
        stats={n: every(v) for n, v in posterior.stats.items()},
        weights=every(posterior.weights),
        warmup={part: {n: every(v) for n, v in values.items()} for part, values in kept.items()} or None,
        settings=posterior.settings | {"thinned_in_file": step},
    )

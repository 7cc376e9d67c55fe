"""`collect`: the draws after warm-up, kept by the journal as they come."""

from __future__ import annotations

import functools

from .journal import Journal
from .march import POSITION, Run, Show, Stop, advance, restore
from .noise import BLOCK
from .stream import every


def collect(run: Run, draws: int, thin: int, journal: Journal, stop: Stop, show: Show) -> str:
    """Draws of all chains after warm-up, every `thin`-th iteration, from where the journal says that they are.

    Returns:
        Why it ended early, or "".
    """
    saved = journal.take("sampling")
    if saved is None:
        run.sampling = run.iteration = -(-run.iteration // BLOCK) * BLOCK  # sampling begins with a block of its own
        kept, divergences = 0, 0
    else:
        restore(run, saved["run"])
        kept, divergences = saved["iterations"], saved["divergences"]
    wanted, reason = draws * thin, ""
    while kept < wanted and not (reason := stop() or journal.full()):
        position, stat, completed = advance(run, min(BLOCK - run.iteration % BLOCK, wanted - kept), stop)
        rows = {POSITION: position, **{name: stat[name] for name in run.kernel.STATS}}
        rows = {name: value[:, :completed] for name, value in rows.items()}
        journal.draws.add(every(rows, thin, kept))
        kept += completed
        divergences += int(rows["diverging"].sum()) if "diverging" in rows else 0
        show(kept, f"accept {float(stat['accept'][:, :completed].mean()):.2f}, {divergences} divergences")
        if kept < wanted and completed:
            journal.at_boundary("sampling", run, functools.partial(dict, iterations=kept, divergences=divergences))
    journal.write("sampling", run, functools.partial(dict, iterations=kept, divergences=divergences))
    if journal.kept is not None:
        journal.kept.unfinished = kept < wanted
    return reason if kept < wanted else ""

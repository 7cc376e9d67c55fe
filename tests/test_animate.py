"""The page of samplers at work: its chains are the kernels', its marginals exact, and it runs in a browser."""

from __future__ import annotations

import json
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

import zoo
from tests.browser import page
from zoo.__main__ import main
from zoo.infer.mass import unit
from zoo.infer.noise import noise_block
from zoo.report.animate import exact, folders
from zoo.report.animate.payload import LARGEST, payload, unpacked
from zoo.report.animate.record import Record, record, setup_of
from zoo.report.animate.write import html

SAMPLERS, TARGETS = folders.names("samplers"), folders.names("targets")
DRAWS = 16
ALPHA = 1e-4


def sampler(name: str) -> Any:
    return folders.module("samplers", name)


def target(name: str) -> Any:
    return folders.module("targets", name)


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """A small page's data: all samplers, all targets."""
    return payload(SAMPLERS, TARGETS, DRAWS, 0)


def test_there_are_the_samplers_and_targets_of_the_lecture() -> None:
    assert SAMPLERS == ["hmc", "mala", "mclmc", "mh", "nuts", "sgld"]
    assert TARGETS == ["banana", "double_well", "funnel", "ring"]


# -- the chains ------------------------------------------------------------------------------------------


def iterations(run: dict[str, Any]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(draw before, points, draw after) of each iteration, in the page's whole numbers."""
    draws, path = unpacked(run["draws"]).reshape(-1, 2), unpacked(run["path"]).reshape(-1, 2)
    ends = np.cumsum(unpacked(run["count"])).astype(int)
    return [(draws[t], points, draws[t + 1]) for t, points in enumerate(np.split(path, ends[:-1]))]


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_draw_is_the_accepted_proposal_or_the_draw_before(told: dict[str, Any], name: str) -> None:
    seen = {"moved": 0, "stayed": 0}
    for key in (key for key in told["runs"] if key.split("/")[1] == name):
        for before, points, after in iterations(told["runs"][key]):
            allowed = {"nuts": [*points, before], "sgld": [points[-1]]}.get(name, [points[-1], before])
            assert any((after == point).all() for point in allowed), key
            seen["moved" if (after != before).any() else "stayed"] += 1
    assert seen["moved"] > 100
    assert seen["stayed"] > 50 or name in ("nuts", "sgld")


@pytest.mark.parametrize("name", ["mh", "mala", "hmc", "mclmc"])
def test_acceptance_is_what_the_energy_error_says(name: str) -> None:
    kind = sampler(name)
    for chain in record(kind, [target("banana")] * 4, kind.SIZES, kind.LENGTHS[-1], draws=DRAWS, seeds=[1, 2, 3, 4]):
        last = chain.error[np.cumsum(chain.visited) - 1]
        assert np.allclose(chain.chance, np.exp(-np.clip(last, 0, None)), atol=1e-12)


def leapfrog(q: np.ndarray, p: np.ndarray, e: float, steps: int) -> np.ndarray:
    """The banana's trajectory by hand, (steps, 2)."""

    def slope(q: np.ndarray) -> np.ndarray:
        bent = (q[1] - q[0] ** 2 + 1) / 0.25
        return np.array([-q[0] + 2 * q[0] * bent, -bent])

    points = []
    for _ in range(steps):
        p = p + e / 2 * slope(q)
        q = q + e * p
        p = p + e / 2 * slope(q)
        points.append(q)
    return np.array(points)


def hmc_of_banana() -> tuple[Record, np.ndarray]:
    """60 trajectories of 5 steps of .24, and the momenta they were started with."""
    hmc = sampler("hmc")
    (chain,) = record(hmc, [target("banana")], [0.24], 5, draws=60, seeds=[7])
    noise = noise_block(setup_of(hmc, 5).noise, seed=7, block=0, chains=1, like=torch.zeros(1, dtype=torch.float64))
    return chain, noise["momentum"][:60, 0].numpy()


def test_trajectories_start_at_the_draw_before() -> None:
    chain, momenta = hmc_of_banana()
    paths = chain.path.reshape(60, 5, 2)
    for start, momentum, path in zip(chain.draws, momenta, paths, strict=False):
        assert np.allclose(leapfrog(start, momentum, 0.24, 5), path, rtol=1e-8)


def test_a_trajectory_from_where_a_refused_one_ended_is_another() -> None:
    chain, momenta = hmc_of_banana()
    paths = chain.path.reshape(60, 5, 2)
    refused = [t for t in range(59) if (chain.draws[t] == chain.draws[t + 1]).all()]
    assert refused
    for t in refused:
        assert not np.allclose(leapfrog(paths[t, -1], momenta[t + 1], 0.24, 5), paths[t + 1], rtol=1e-3)


def plainly(name: str, size: float, length: int) -> np.ndarray:
    """The draws of a kernel driven with its own step size in the target's own coordinates."""
    kind, banana = sampler(name), target("banana")

    def density(q: torch.Tensor, rows: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = q.unbind(-1)
        bent = (y - x**2 + 1) / 0.25
        return banana.log_density(q), torch.stack([-x + 2 * x * bent, -bent], -1)

    setup, start = setup_of(kind, length), torch.tensor([banana.START], dtype=torch.float64)
    setup = setup._replace(tuned={k: size * v if k == "length" else v for k, v in setup.tuned.items()})
    noise = noise_block(setup.noise, seed=3, block=0, chains=1, like=start)
    tuned = {key: start.new_tensor(value) for key, value in setup.tuned.items()}
    state, draws = kind.kernel.init(start, *density(start), setup.constants), [start[0].numpy()]
    while int(state.completed) < 10:
        state, draw = kind.kernel.step(
            state, density, noise, step_size=start.new_tensor(size), mass=unit(start[0]), stop=torch.tensor(10),
            **tuned, **setup.constants,
        )  # fmt: skip
        if bool(draw.done):
            draws.append(draw.position[0].numpy())
    return np.array(draws)


@pytest.mark.parametrize("name", SAMPLERS)
def test_step_sizes_side_by_side_are_the_kernel_with_each(name: str) -> None:
    kind = sampler(name)
    length, sizes = kind.LENGTHS[-1], kind.SIZES[:2]
    chains = record(kind, [target("banana")] * 2, sizes, length, draws=10, seeds=[3, 3])
    for size, chain in zip(sizes, chains, strict=True):
        # Ten draws: trajectories are chaotic.
        assert np.allclose(chain.draws, plainly(name, size, length), rtol=1e-6, atol=1e-6)
    assert not np.allclose(chains[1].draws, plainly(name, 1.01 * sizes[1], length), rtol=1e-6, atol=1e-6)


def test_the_targets_beside_change_nothing(told: dict[str, Any]) -> None:
    alone = payload(["mh", "mala"], ["ring"], DRAWS, 0)
    assert all(run == told["runs"][key] for key, run in alone["runs"].items())
    assert payload(["mh"], ["ring"], DRAWS, 1)["runs"] != payload(["mh"], ["ring"], DRAWS, 0)["runs"]


def test_a_chain_that_runs_away_stays_a_number(told: dict[str, Any]) -> None:
    draws = unpacked(told["runs"]["double_well/sgld/0.3/0"]["draws"])
    assert np.abs(draws).max() <= LARGEST


# -- the exact marginals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", TARGETS)
def test_marginals_integrate_to_one(name: str, axis: int) -> None:
    file = target(name)
    at = np.linspace(*file.WIDE[axis], file.NODES[axis])
    assert np.isclose(exact.marginal(file, axis, at).sum() * (at[1] - at[0]), 1, atol=1e-9)
    points, density, mass = exact.curve(file, axis)
    assert np.isclose(mass.sum(), np.trapezoid(density, points), atol=1e-3)
    assert 0.98 < mass.sum() <= 1 + 1e-9


def test_marginals_are_those_known_in_closed_form() -> None:
    at = np.linspace(-2.3, 2.3, 41)
    for name, axis, sd in (("banana", 0, 1.0), ("funnel", 1, 1.5), ("double_well", 1, 0.7)):
        assert np.allclose(exact.marginal(target(name), axis, at), stats.norm.pdf(at, 0, sd), atol=1e-9)
    well = np.exp(-4 * (at**2 - 1) ** 2) / integrate.quad(lambda x: math.exp(-4 * (x * x - 1) ** 2), -4, 4)[0]
    assert np.allclose(exact.marginal(target("double_well"), 0, at), well, atol=1e-9)
    ring = exact.marginal(target("ring"), 0, at)
    assert np.allclose(ring, exact.marginal(target("ring"), 1, at))
    assert np.allclose(ring, ring[::-1])


def exact_bananas(count: int) -> np.ndarray:
    x, e = np.random.default_rng(5).standard_normal((2, count))
    return np.stack([x, x**2 - 1 + 0.5 * e], -1)


def test_regions_hold_the_shares_they_are_said_to() -> None:
    draws = exact_bananas(100_000)
    lp = target("banana").log_density(torch.from_numpy(draws)).numpy()
    for level, share in zip(exact.whole(target("banana")).levels, exact.SHARES, strict=True):
        error = math.sqrt(share * (1 - share) / len(draws))
        assert abs((lp > level).mean() - share) < 5 * error + 2e-3  # the level is that of a grid's point


def p_value(draws: np.ndarray) -> float:
    """Chi-square of both coordinates' histograms against the page's exact shares, Bonferroni."""
    values = []
    for axis in (0, 1):
        low, high = target("banana").BOX[axis]
        counts = np.histogram(draws[:, axis], exact.BINS, (low, high))[0]
        mass = exact.curve(target("banana"), axis)[2]
        counts, mass = np.append(counts, len(draws) - counts.sum()), np.append(mass, 1 - mass.sum())
        small = mass * len(draws) < 10
        pooled = [np.append(x[~small], x[small].sum()) for x in (counts, mass * len(draws))]
        values.append(2 * stats.chisquare(*pooled).pvalue)
    return float(min(values))


def ends(name: str, size: float) -> np.ndarray:
    """Where 4,000 chains are that began with exact draws of the banana, 10 iterations on."""
    start = exact_bananas(4000)
    chains = record(
        sampler(name), [target("banana")] * 4000, [size] * 4000, 0, draws=10, seeds=list(range(4000)), start=start
    )
    return np.array([chain.draws[-1] for chain in chains])


def test_histograms_agree_with_the_exact_marginals() -> None:
    assert p_value(exact_bananas(4000)) > ALPHA
    assert p_value(ends("mh", 1.0)) > ALPHA


def test_without_the_accept_step_they_do_not() -> None:
    assert p_value(ends("sgld", 0.1)) < ALPHA


# -- the page --------------------------------------------------------------------------------------------


def test_the_page_needs_no_network_and_is_small(told: dict[str, Any]) -> None:
    text = html(told)
    assert not re.search(r"https?:|//[a-z0-9-]+\.|@import|url\(|<script src|<link rel=\"(?!icon)", text)
    assert "default-src 'none'" in text
    assert re.findall(r"\[\[[A-Z]+\]\]", text) == []
    runs = len(json.dumps(told["runs"]))
    assert len(text) - runs + runs * 250 / DRAWS < 3e6
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])["draws"] == DRAWS


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    to = tmp_path / "sampler.html"
    words = ["animate", "mh", "mala", "--target", "ring,banana", "--target", "funnel", "--draws", "5", "-o", str(to)]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith(f"saved {to} (0.")
    text = to.read_text(encoding="utf-8")
    assert [word in text for word in ("funnel/mala/0.02/0", "ring/mh/1/0", "double_well/mh", "ring/hmc")] == [
        True, True, False, False,
    ]  # fmt: skip
    again = zoo.animate(["mh", "mala"], ["ring", "banana", "funnel"], tmp_path / "again.html", draws=5)
    assert again.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "words, said",
    [
        (["hcm"], "unknown sampler 'hcm'. Did you mean 'hmc'? Known: hmc, mala, mclmc, mh, nuts, sgld."),
        (["mh", "-t", "bananna"], "unknown target 'bananna'. Did you mean 'banana'? Known: banana, double_well,"),
        (["mh", "-t", ","], "animate needs at least one of the targets: banana, double_well, funnel, ring."),
        (["mh", "--draws", "0"], "draws must be a whole number from 1 to 5000, got 0. Usual: 250."),
        (["mh", "-o", "nowhere/x.html"], "nowhere/x.html can't be written: there is no folder"),
        (["mh", "-o", "."], "path must be a file, got the folder ."),
        (["mh", "-o", "/dev/null"], "path must be a file, got /dev/null, a device or pipe."),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["animate", *words]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"zoo: {said}")
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


# -- in a browser ----------------------------------------------------------------------------------------


def count(session: Any) -> int:
    return int(session.text("draw").split()[0])


def wait_for(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


@pytest.mark.browser
def test_the_page_in_chromium(told: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "sampler.html"
    file.write_text(html(told), encoding="utf-8")
    with page(file) as session:
        assert count(session) == 0
        session.press("right")
        session.press("right")
        assert count(session) == 2
        session.press("+")
        session.press("space")
        assert session.text("play") == "Pause"
        wait_for(lambda: count(session) > 5)
        session.press("space")
        assert session.text("play") == "Play"
        assert f"draw {count(session)} of {DRAWS}" in session.text("status")
        every_choice(session)
        session.evaluate("location.assign('#ring/mh/1/0/9')")
        wait_for(lambda: count(session) == 9)
        assert session.console() == []


def every_choice(session: Any) -> None:
    """Each sampler on each target, by the keyboard; every one can be stepped, and no two look alike."""
    pictures = set()
    for _ in TARGETS:
        for _ in SAMPLERS:
            session.press("m")
            assert count(session) == 0
            session.press("right")
            assert count(session) == 1
            pictures.add(session.evaluate("document.getElementById('joint').toDataURL()"))
        session.press("t")
    chosen = session.evaluate("document.getElementById('sampler').selectedOptions[0].text")
    assert chosen == folders.said(sampler(SAMPLERS[0]))[0]
    assert len(pictures) == len(SAMPLERS) * len(TARGETS)


@pytest.mark.browser
def test_an_error_in_the_console_is_seen(told: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "broken.html"
    file.write_text(html(told | {"runs": {}}), encoding="utf-8")
    with page(file) as session:
        assert any("SEVERE" in line for line in session.console())

"""The drawn faces: what they promise of their two factors, and what a broken face would show."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.refusals import refused
from zoo.data import toy
from zoo.data.faces import FACTORS, face, factors

GRID = torch.linspace(-1, 1, 41)


def effects(draw: Callable[[Tensor, Tensor], Tensor]) -> dict[str, float]:
    """The pixels' mean variance over one factor, averaged over the other, on a grid of 41 x 41."""
    smile, pose = torch.meshgrid(GRID, GRID, indexing="ij")
    y = draw(smile.flatten(), pose.flatten()).reshape(41, 41, -1)
    return {"smile": float(y.var(0).mean()), "pose": float(y.var(1).mean())}


def comparable(found: dict[str, float]) -> bool:
    return abs(found["smile"] / found["pose"] - 1) <= 0.3


def test_smile_and_pose_move_the_pixels_alike() -> None:
    found = effects(face)
    assert comparable(found), found
    assert min(found.values()) > 1e-3
    # The twin: a head that turns twice as far.
    assert not comparable(effects(lambda smile, pose: face(smile, 2 * pose)))


def test_a_face_is_a_smooth_function_of_both_factors() -> None:
    still = torch.zeros(201)
    for moving in ((torch.linspace(-1, 1, 201), still), (still, torch.linspace(-1, 1, 201))):
        steps = (face(*moving)[1:] - face(*moving)[:-1]).abs().amax(1)
        assert steps.max() < 0.04  # no pixel jumps
        assert steps.min() > 2e-4  # and no stretch of the factor is without effect


def test_the_factors_are_what_their_names_say() -> None:
    y = face(torch.tensor([-1.0, 1.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, -1.0, 1.0])).reshape(4, 32, 32)
    dark = 0.8 - y
    height = torch.linspace(-1, 1, 32)[:, None]
    corners = dark[:2, 20:30, 9:11]  # left end of the mouth: up is a smile
    low, high = (corners * height[20:30]).sum((1, 2)) / corners.sum((1, 2))
    assert high < low - 0.1
    eyes = dark[2:, 11:16, 8:24].sum(1)
    left, right = (eyes * torch.arange(16)).sum(1) / eyes.sum(1)
    assert right > left + 0.5
    mirror = face(torch.tensor([0.3]), torch.tensor([-0.6])).reshape(32, 32).flip(1)
    assert torch.allclose(mirror, face(torch.tensor([0.3]), torch.tensor([0.6])).reshape(32, 32), atol=1e-5)


def test_faces_are_data_that_depend_on_their_seed_only() -> None:
    state = torch.random.get_rng_state()
    data = toy.faces(20, 3, held_out=5)
    assert torch.equal(state, torch.random.get_rng_state())
    assert (tuple(data.x.shape), tuple(data.y.shape)) == ((20, 0), (20, 1024))
    assert (tuple(data.x_test.shape), tuple(data.y_test.shape)) == ((5, 0), (5, 1024))
    assert data.y.dtype == torch.float32
    assert 0 <= float(data.y.min()) < 0.2
    assert 0.7 < float(data.y.max()) <= 1
    assert data.hash == toy.faces(20, 3, held_out=5).hash
    assert data.hash != toy.faces(20, 4, held_out=5).hash
    assert data.info["image_shape"] == [32, 32]
    json.dumps(data.info)


def test_the_factors_are_kept() -> None:
    data = toy.faces(100, 0, held_out=20)
    assert list(data.info["factors"]) == list(FACTORS)
    for test, y in ((False, data.y), (True, data.y_test)):
        known = factors(data, test)
        assert tuple(known.shape) == (len(y), 2)
        assert torch.allclose(face(*known.T), y, atol=1e-5)
    assert factors(data).abs().max() <= 1
    assert factors(data).std(0).sub(3**-0.5).abs().max() < 0.06


def test_no_faces_are_refused() -> None:
    refused(lambda: toy.faces(0), "n must be")


@pytest.mark.slow
def test_2000_faces_take_less_than_a_second() -> None:
    seconds = []
    for seed in range(3):
        start = time.process_time()
        toy.faces(2000, seed, held_out=1)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 1, seconds

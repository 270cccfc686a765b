"""Images changed at random, and nnet3-egs-augment-image."""
from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from nnet3py.cli.main import load
from nnet3py.egs.changes import ImageAugmenter, transformed
from nnet3py.egs.example import EXAMPLE, NnetExample, NnetIo, read_egs
from nnet3py.egs.make import simple_example
from nnet3py.egs.merger import merge_examples
from nnet3py.egs.options import ImageOptions
from nnet3py.errors import Nnet3Error, ShapeError, UsageError
from nnet3py.io.tables import TableWriter
from nnet3py.random_sequence import CRandom

WIDTH, HEIGHT, CHANNELS = 5, 4, 3
TOLERANCE = 1e-4                         # float32 places between pixels; pixels are below 60
PIXELS = np.arange(WIDTH * HEIGHT * CHANNELS, dtype=np.float32).reshape(WIDTH, HEIGHT, CHANNELS)
IMAGE = PIXELS.reshape(WIDTH, -1)


def shift(x: float, y: float) -> np.ndarray:
    return np.array([[1, 0, x], [0, 1, y], [0, 0, 1.0]])


def slowly(image: np.ndarray, matrix: np.ndarray, channels: int, fill: str) -> np.ndarray:
    """What the sheet says, pixel by pixel."""
    pixels = image.reshape(image.shape[0], -1, channels)

    def inside(place: int, size: int) -> int:
        if fill == "nearest" or size == 1:
            return min(max(place, 0), size - 1)
        while not 0 <= place < size:
            place = -place if place < 0 else 2 * size - 2 - place
        return place

    result = np.zeros(pixels.shape)
    for x in range(pixels.shape[0]):
        for y in range(pixels.shape[1]):
            from_x, from_y, _ = matrix @ [x, y, 1]
            for px in (math.floor(from_x), math.floor(from_x) + 1):
                for py in (math.floor(from_y), math.floor(from_y) + 1):
                    weight = (1 - abs(from_x - px)) * (1 - abs(from_y - py))
                    result[x, y] += weight * pixels[inside(px, pixels.shape[0]), inside(py, pixels.shape[1])]
    return result.reshape(image.shape)


@pytest.mark.parametrize("fill", ["nearest", "reflect"])
@pytest.mark.parametrize("matrix", [shift(2, -1), shift(0.25, 0.5), shift(-9, 7), np.array(
    [[0.8, -0.6, 1.3], [0.6, 0.8, -2.1], [0, 0, 1]])], ids=["pixels", "between", "far", "turned"])
def test_transforms(matrix: np.ndarray, fill: str) -> None:
    found = transformed(IMAGE, matrix, CHANNELS, fill)
    assert found.dtype == np.float32 and found.shape == IMAGE.shape
    assert np.abs(found - slowly(IMAGE, matrix, CHANNELS, fill)).max() < TOLERANCE


def test_a_shift_takes_pixels_from_where_it_points() -> None:
    found = transformed(IMAGE, shift(2, 0), CHANNELS).reshape(PIXELS.shape)
    assert np.array_equal(found[:-2], PIXELS[2:]) and np.array_equal(found[-1], PIXELS[-1])
    reflected = transformed(IMAGE, shift(2, 0), CHANNELS, "reflect").reshape(PIXELS.shape)
    assert np.array_equal(reflected[-2:], [PIXELS[-2], PIXELS[-3]])
    assert transformed(np.zeros((0, 3), np.float32), shift(1, 1), 3).shape == (0, 3)
    assert transformed(np.ones((1, 1), np.float32), shift(3, 3), 1, "reflect").tolist() == [[1.0]]


def test_nothing_is_done_unless_asked_for() -> None:
    assert ImageAugmenter(ImageOptions(CHANNELS), CRandom(1))(IMAGE) is IMAGE


def test_flips() -> None:
    flipped = ImageAugmenter(ImageOptions(CHANNELS, horizontal_flip_prob=1.0), CRandom(1))(IMAGE)
    assert np.allclose(flipped.reshape(PIXELS.shape), PIXELS[::-1])
    some = ImageAugmenter(ImageOptions(CHANNELS, horizontal_flip_prob=0.5), CRandom(1))
    assert 60 < sum(some(IMAGE) is IMAGE for _ in range(200)) < 140       # 40: more than five standard deviations


def test_rotation_turns_about_the_middle() -> None:
    square = np.zeros((5, 5), np.float32)
    square[2, 2] = square[2, 3] = 1.0
    found = ImageAugmenter(ImageOptions(1, rotation_degree=180.0, rotation_prob=1.0), CRandom(3))(square)
    assert abs(found[2, 2] - 1.0) < TOLERANCE and not np.allclose(found, square)
    still = ImageAugmenter(ImageOptions(1, rotation_degree=180.0), CRandom(3))
    assert still(square) is square


def test_shifts_are_whole_pixels_and_stay_in_range() -> None:
    augmenter = ImageAugmenter(ImageOptions(CHANNELS, horizontal_shift=0.4, vertical_shift=0.5), CRandom(1))
    allowed = [transformed(IMAGE, shift(x, y), CHANNELS) for x in range(-2, 3) for y in range(-2, 3)]
    found = [augmenter(IMAGE) for _ in range(100)]
    numbers = {next(i for i, image in enumerate(allowed) if np.array_equal(image, one)) for one in found}
    assert len(numbers) > 15
    again = ImageAugmenter(ImageOptions(CHANNELS, horizontal_shift=0.4, vertical_shift=0.5), CRandom(1))
    assert all(np.array_equal(again(IMAGE), one) for one in found)


@pytest.mark.parametrize("name, value", [("num_channels", 0), ("fill_mode", "black")])
def test_values_that_make_no_sense(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name.replace("_", "-")):
        ImageAugmenter(ImageOptions(**{name: value}), CRandom(1))  # type: ignore[arg-type]


def test_examples_that_are_no_images() -> None:
    augmenter = ImageAugmenter(ImageOptions(CHANNELS), CRandom(1))
    with pytest.raises(Nnet3Error, match="no NnetIo object named 'input'"):
        augmenter.change(simple_example([("other", IMAGE)]))
    with pytest.raises(ShapeError, match="12 columns, which is not a multiple of --num-channels=5"):
        ImageAugmenter(ImageOptions(5), CRandom(1)).change(simple_example([("input", IMAGE)]))
    one = simple_example([("input", IMAGE)])
    with pytest.raises(Nnet3Error, match="before merging"):
        augmenter.change(merge_examples([one, one]))


def test_the_command(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with TableWriter("ark:egs", EXAMPLE) as writer:
        for i in range(3):
            one = simple_example([("input", IMAGE), ("output", np.array([[i]], np.float32))])
            one.compress()
            writer.write(f"i{i}", one)
    command = load("nnet3-egs-augment-image")
    words = ["--num-channels=3", "--horizontal-shift=0.4", "--horizontal-flip-prob=0.5", "--srand=2"]
    assert command.execute([*words, "ark:egs", "ark:out"]) == 0
    assert "Perturbed 3 neural-network training images." in capfd.readouterr().err
    found: list[NnetIo] = [one.io[0] for _, one in read_egs("ark:out")]
    assert all(isinstance(io.features, np.ndarray) and io.features.shape == IMAGE.shape for io in found)
    assert any(np.abs(io.features - IMAGE).max() > 1 for io in found)
    assert command.execute(["--fill-mode=black", "ark:egs", "ark:bad"]) == 255
    assert command.execute(["--num-channels=5", "ark:egs", "ark:bad"]) == 255
    assert "example i0: an image has 12 columns" in capfd.readouterr().err and not Path("bad").exists()
    Path("empty").touch()
    assert command.execute(["ark:empty", "ark:out"]) == 1
    assert isinstance(next(read_egs("ark:egs"))[1], NnetExample)

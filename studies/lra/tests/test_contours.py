"""Pictures of dashed contours: what is drawn, and that the pixels alone tell the answer."""

import itertools
import math
import random
from functools import cache

import numpy as np
import pytest

from studies.lra import contours
from studies.lra.contours import CONTOUR_CONTRAST, SIZE, picture
from studies.lra.generators import pathfinder

pytestmark = pytest.mark.extended

HARD = {"dashes": 14, "distractors": 5, "distractor_dashes": 4}


@cache
def drawn(number=60):
    """Pictures, alternately connected and not."""
    rng = random.Random(3)
    return [(bool(i % 2), picture(rng, bool(i % 2), **HARD)) for i in range(number)]


def test_markers_on_contours():
    for connected, made in drawn():
        begun = [contour[0].tail == made.markers[0] for contour in made.contours[:2]]
        ended = [contour[-1].head == made.markers[1] for contour in made.contours[:2]]
        assert sum(begun) == sum(ended) == 1
        assert (begun == ended) == connected


def test_dashes_and_gaps():
    for _, made in drawn():
        assert [len(contour) for contour in made.contours[:2]] == [14, 14]
        assert {len(contour) for contour in made.contours[2:]} <= {4}
        assert len(made.contours) - 2 <= 5
        for contour in made.contours:
            for dash in contour:
                assert all(0 <= place < SIZE for place in dash.head)
                assert 1 <= math.dist(dash.tail, dash.head) <= 3  # two pixels, with places rounded up
            for before, after in itertools.pairwise(contour):
                assert math.dist(before.head, after.tail) <= 5
                # All but the first dash are drawn from their heads.
                turn = after.angle + math.pi - before.angle - (0 if before is contour[0] else math.pi)
                assert math.cos(turn) > 0


def follows(values, begin, goal, dashes):
    """Whether a chain of dashes in the grey values leads from one place to the other: the path is followed in them.

    Every dash that continues the last one and that the pixels can hold is tried. Which dash was drawn, and for which
    contour, is not known here.
    """
    edge = contours._EDGE
    canvas = np.pad(values.astype(float), edge, constant_values=1000)
    canvas /= min(canvas[row + edge, column + edge] for row, column in (begin, goal))  # the markers have brightness 1

    def shows(dash):
        patch = contours._patches(dash.angle)[0] * CONTOUR_CONTRAST
        return bool((contours._around(canvas, dash.start) >= patch - 0.02).all())

    def ends(pivot, angle):
        pivot = row, column = contours._moved(pivot, angle, contours.DASH + 2 * contours.MARGIN)
        for (down, right), turned in zip(*contours._ring(), strict=True):
            head, back = (row + down, column + right), contours._reversed(turned)
            inside = all(0 <= place < SIZE for place in head)
            if inside and math.cos(turned - angle) > 1e-9 and shows(contours.Dash(head, head, head, back)):
                yield pivot, turned, head

    reached = {
        (seed.pivot, seed.angle, None)
        for degrees in range(-180, 180)
        if (seed := contours._seed(begin, degrees)) and shows(seed.dash)
    }
    for _ in range(dashes - 1):
        reached = {end for pivot, angle, _ in reached for end in ends(pivot, angle)}
    return any(head == goal for _, _, head in reached)


def test_path_in_the_pixels():
    """A joined pair is always found; a pair that is not may look joined, where contours cross: in 2.7 % of 300."""
    found = {True: [], False: []}
    for connected, made in drawn():
        found[connected].append(follows(made.values, *made.markers, 14))
    assert all(found[True])
    assert np.mean(found[False]) <= 0.1


def test_pictures_as_published():
    """Means of 120 pictures of the program itself, with scipy's old `imresize` and the settings of Long Range Arena.

    Grey value 20.2, lit pixels 34.5 %, distractors 1.16; the limits are three standard errors of both samples.
    """
    rng = random.Random(0)
    many = [picture(rng, bool(i % 2), **HARD) for i in range(150)]
    values = np.array([made.values for made in many])
    assert values.mean() == pytest.approx(20.245, abs=1.0)
    assert (values > 0).mean() == pytest.approx(0.3447, abs=0.012)
    assert np.mean([len(made.contours) - 2 for made in many]) == pytest.approx(1.158, abs=0.45)
    distances = [math.dist(*made.markers) for made in many]
    assert np.mean(distances) == pytest.approx(13.39, abs=2.0)
    assert len(np.unique(values)) <= 256


# The documents


def made(documents=60, seed=0, **options):
    values = {"validation": 20, "test": 10} | options
    return pathfinder.make(documents, random.Random(seed), pathfinder.Options.model_validate(values))


def test_document_of_a_picture():
    tables = made()
    for part, size in {"train": 30, "validation": 20, "test": 10}.items():
        table = tables[f"{part}.parquet"]
        assert len(table["text"]) == size
        assert sum(table["label"]) == size / 2
        for text in table["text"]:
            words = text.split(" ")
            assert len(words) == SIZE * SIZE == 1024
            assert all(word == str(int(word)) and int(word) < 256 for word in words)


@pytest.mark.parametrize(("dashes", "short", "most"), [(6, 2, 10), (14, 4, 5)])
def test_lengths_by_level(monkeypatch, dashes, short, most):
    asked = []

    def recorded(rng, connected, *sizes):
        asked.append(sizes)
        return contours.Picture(np.zeros((SIZE, SIZE), np.uint8), [], ())

    monkeypatch.setattr(contours, "picture", recorded)
    made(dashes=dashes)
    assert set(asked) == {(dashes, most, short)}

"""Pictures of dashed contours: two long ones, short ones that distract, and two markers on ends of the long ones.

The question is whether one contour joins the markers. `pathfinder` makes documents of them. This is
no general drawing library: sizes are those of the 32 x 32 pictures of Long Range Arena.

Sources: D. Linsley et al., "Learning long-range spatial dependencies with horizontal gated recurrent units" (2018) and
J. Kim et al., "Disentangling neural mechanisms for perceptual grouping" (2020), for the pictures and the program that
makes them (github.com/drewlinsley/pathfinder, MIT licence), whose procedure is followed step by step; Y. Tay et al.,
"Long Range Arena" (2020), for its settings (`lra_benchmarks/data/pathfinder.py`), which are the constants below.
Coordinates are (row, column), angles are in radians from the columns towards the rows.
"""

import math
import random
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

Point = tuple[int, int]

SIZE = 32
"""Rows and columns of a picture."""
DASH = 2
"""Length of a dash, in pixels."""
MARGIN = 1
"""Pixels around a dash that later dashes keep free, but for a rim; twice as many lie between dashes of a contour. The
first dashes of the long contours are not checked, and the last of one is not kept free: contours sometimes cross."""
CONTINUITY = 1.0
"""How strongly a contour keeps its direction: turns are drawn by the squared cosine of their angle times this."""
SEED_DISTANCE = 7
"""Pixels between the beginnings of the two long contours; the first one keeps twice as many from every edge."""
MARKER_RADIUS = 1.5
CONTOUR_CONTRAST = 1.5
"""Brightness of the long contours, before a picture is scaled: `paddle_contrast_list` times `snake_contrast_list`."""
DISTRACTOR_CONTRAST = 2.0
"""Brightness of the distractors, which the program draws with `snake_contrast_list` alone."""

_THICKNESS = 0.5
_SCALE = 2  # of the raster that is drawn on and then averaged down
_TRIALS = 3  # draws of a dash before its contour is given up
_CONTOUR_TRIALS = 5  # draws of a distractor before it is left out
_TAKEN = 0.3  # a pixel whose mask is above is not free for the end of a first dash
_OVERLAP = 1.8  # two masks that add up to this touch
_FULL = 0.01  # share of free pixels below which no distractor is begun
_REACH = DASH + math.ceil(_THICKNESS) + MARGIN  # of a dash and its margin from where it is drawn from, in pixels
_PATCH = 2 * _REACH + 1
_EDGE = 2 * _REACH  # pixels around a canvas, which spare every dash a check for the end of the picture
_SIDE = SIZE + 2 * _EDGE


class Dash(NamedTuple):
    """A dash of a contour, from its `tail` to its `head`."""

    tail: Point
    head: Point
    start: Point
    """The one of the two that it is drawn from."""
    angle: float
    """Direction of the line drawn from this point."""


class Picture(NamedTuple):
    """A picture and the contours in it."""

    values: np.ndarray
    """Grey values from 0 to 255 [SIZE, SIZE]."""
    contours: list[list[Dash]]
    """The two long contours, then the distractors; each from its first dash to its last."""
    markers: tuple[Point, Point]
    """The tail of the first dash of a long contour, and the head of the last dash of a long contour."""


def picture(rng: random.Random, connected: bool, dashes: int, distractors: int, distractor_dashes: int) -> Picture:
    """Draw a picture.

    Args:
        rng: source of every draw.
        connected: both markers are on one contour.
        dashes: dashes of a long contour.
        distractors: short contours that are tried; those that find no room are left out.
        distractor_dashes: dashes of a short contour.
    """
    while (found := _two_contours(rng, dashes)) is None:
        pass
    contours, mask = found
    for _ in range(distractors):
        for _ in range(_CONTOUR_TRIALS):
            if (more := _distractor(rng, mask, distractor_dashes)) is not None:
                contour, mask = more
                contours.append(contour)
                break
    first = rng.randrange(2)
    markers = contours[first][0].tail, contours[first if connected else 1 - first][-1].head
    return Picture(drawn(contours, markers), contours, markers)


def drawn(contours: list[list[Dash]], markers: tuple[Point, ...]) -> np.ndarray:
    """Return the grey values of dashes and markers [SIZE, SIZE]; the first two contours are the long ones."""
    canvas = np.zeros((_SIDE, _SIDE), np.float32)
    for number, contour in enumerate(contours):
        for dash in contour:
            _lay(
                canvas, dash.start, _patches(dash.angle)[0] * (CONTOUR_CONTRAST if number < 2 else DISTRACTOR_CONTRAST)
            )
    for marker in markers:
        _lay(canvas, marker, _circle())
    image = canvas[_EDGE:-_EDGE, _EDGE:-_EDGE]
    low, high = image.min(), image.max()
    return np.floor((image - low) * (255 / (high - low)) + 0.5).astype(np.uint8)


class _End(NamedTuple):
    """Continuation of a contour."""

    pivot: Point
    angle: float
    dash: Dash
    """The last one, whose mask is laid with the next dash only."""


def _two_contours(rng: random.Random, dashes: int) -> tuple[list[list[Dash]], np.ndarray] | None:
    """Return the two long contours, which grow in turns, and the mask of their pixels; None if they find no room."""
    ends: list[_End] = []
    for begin in (_first_seed, _second_seed):
        if (end := begin(rng, ends)) is None:
            return None
        ends.append(end)
    mask = _empty_mask().copy()
    contours = [[end.dash] for end in ends]
    for _ in range(dashes - 1):
        for number, contour in enumerate(contours):
            if (longer := _extended(rng, mask, ends[number])) is None:
                return None
            ends[number] = longer
            contour.append(longer.dash)
    _lay_mask(mask, ends[-1].dash)
    return contours, mask


def _distractor(rng: random.Random, mask: np.ndarray, dashes: int) -> tuple[list[Dash], np.ndarray] | None:
    """Return one more contour and the mask with it; None if it finds no room."""
    taken = mask[_EDGE:-_EDGE, _EDGE:-_EDGE] > _TAKEN
    for _ in range(_TRIALS):
        degrees = rng.randrange(-180, 180)
        if 1 - taken.mean() < _FULL or not (free := _free(taken, degrees)):
            return None
        if (end := _seed(free[rng.randrange(len(free))], degrees)) is not None:
            break
    else:
        return None
    mask = mask.copy()
    contour = [end.dash]
    for _ in range(dashes - 1):
        if (end := _extended(rng, mask, end)) is None:
            return None
        contour.append(end.dash)
    _lay_mask(mask, end.dash)
    return contour, mask


def _first_seed(rng: random.Random, __: list[_End]) -> _End | None:
    for _ in range(_TRIALS):
        degrees = rng.randrange(-180, 180)
        if not (free := _middle(degrees)):
            return None
        if (seed := _seed(free[rng.randrange(len(free))], degrees)) is not None:
            return seed
    return None


def _second_seed(rng: random.Random, ends: list[_End]) -> _End | None:
    row, column = ends[0].dash.tail
    for _ in range(_TRIALS):
        degrees, direction = rng.randrange(-180, 180), math.radians(rng.randrange(360))
        down, right = SEED_DISTANCE * math.sin(direction), SEED_DISTANCE * math.cos(direction)
        if (seed := _seed((round(row + down), round(column + right)), degrees)) is not None:
            return seed
    return None


def _seed(tail: Point, degrees: int) -> _End | None:
    """Return the first dash of a contour; None if it leaves the picture."""
    angle = math.radians(degrees)
    head = _moved(tail, angle, DASH)
    pivot = _moved(head, _reversed(angle), DASH + MARGIN)
    if not all(0 <= place < SIZE for place in (*head, *pivot)):
        return None
    return _End(pivot, angle, Dash(tail, head, tail, angle))


def _extended(rng: random.Random, mask: np.ndarray, end: _End) -> _End | None:
    """Return the next dash of a contour, and lay the mask of the last one; None if there is no room."""
    pivot = row, column = _moved(end.pivot, end.angle, DASH + 2 * MARGIN)
    near = mask.take(_ring_and_neighbours() + ((row + _EDGE) * _SIDE + column + _EDGE)).max(1)
    shares = ((1 - near) * _preferences(end.angle)).cumsum()
    if shares[-1] < 1e-4:
        return None
    places, angles = _ring()
    for _ in range(_TRIALS):
        number = int(shares.searchsorted(rng.random() * shares[-1], side="right"))
        head = row + places[number][0], column + places[number][1]
        back = _reversed(angles[number])
        if (_around(mask, head) + _patches(back)[1]).max() < _OVERLAP:
            _lay_mask(mask, end.dash)
            return _End(pivot, angles[number], Dash(_moved(head, back, DASH), head, head, back))
    return None


def _around(canvas: np.ndarray, point: Point) -> np.ndarray:
    """Return the part of a canvas around a point that a patch covers."""
    row, column = point[0] + _EDGE - _REACH, point[1] + _EDGE - _REACH
    return canvas[row : row + _PATCH, column : column + _PATCH]


def _lay(canvas: np.ndarray, point: Point, patch: np.ndarray) -> None:
    there = _around(canvas, point)
    np.maximum(there, patch, out=there)


def _lay_mask(mask: np.ndarray, dash: Dash) -> None:
    _lay(mask, dash.start, _patches(dash.angle)[1])


@cache
def _empty_mask() -> np.ndarray:
    """Return what dashes may not touch at first: the outermost pixels, and all beyond them."""
    mask = np.ones((_SIDE, _SIDE), np.float32)
    mask[_EDGE + 1 : -_EDGE - 1, _EDGE + 1 : -_EDGE - 1] = 0
    return mask


def _moved(point: Point, angle: float, distance: int) -> Point:
    """Return the pixel at a distance, rounded up as the program does."""
    return math.ceil(point[0] + distance * math.sin(angle)), math.ceil(point[1] + distance * math.cos(angle))


def _reversed(angle: float) -> float:
    return angle + math.pi if angle < 0 else angle - math.pi


@cache
def _patches(angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Return a dash that begins in the middle, and its mask, from 0 to 1 [_PATCH, _PATCH]."""
    side, middle = (_PATCH - 1) * _SCALE + 1, _REACH * _SCALE
    row, column = _moved((middle, middle), angle, DASH * _SCALE)
    large = Image.new("L", (side, side))
    ImageDraw.Draw(large).line([(middle, middle), (column, row)], fill=255, width=round(_THICKNESS * _SCALE))
    reach = np.arange(-MARGIN * _SCALE, MARGIN * _SCALE + 1)
    disc = reach[:, None] ** 2 + reach**2 <= (MARGIN * _SCALE) ** 2
    dilated = ndimage.grey_dilation(np.asarray(large), footprint=disc, mode="constant")
    return _averaged(large), _averaged(Image.fromarray(dilated))


@cache
def _circle() -> np.ndarray:
    side, middle = _PATCH * _SCALE, _REACH * _SCALE
    reach = np.arange(side) - middle
    disc = reach[:, None] ** 2 + reach**2 <= (MARKER_RADIUS * _SCALE) ** 2
    return _averaged(Image.fromarray(disc.astype(np.uint8) * 255))


def _averaged(large: Image.Image) -> np.ndarray:
    return np.asarray(large.resize((_PATCH, _PATCH), Image.Resampling.LANCZOS)).astype(np.float32) / 255


def _free(taken: np.ndarray, degrees: int) -> list[Point]:
    """Return where the tail of a first dash in that direction may be.

    The program looks for the dash one pixel to the lower right of where it draws it, and finds no place at all if that
    is outside of the picture for the tail in some corner. So it begins contours towards the upper left only.
    """
    struct = _seed_struct(degrees)
    if struct is None:
        return []
    return [(row, column) for row, column in np.argwhere(~ndimage.binary_dilation(taken, struct)).tolist()]


@cache
def _seed_struct(degrees: int) -> np.ndarray | None:
    """Return which pixels the program wants free around the tail of a first dash, as scipy's dilation takes them."""
    _, margin = _patches(math.radians(degrees))
    reach = DASH + MARGIN
    struct = margin[: 2 * reach + 1, : 2 * reach + 1] >= 1
    downs, rights = (np.argwhere(struct) - reach).T
    corners = [(down * downs > 0) | (right * rights > 0) for down in (-1, 1) for right in (-1, 1)]
    return None if any(outside.all() for outside in corners) else struct[::-1, ::-1]


@cache
def _middle(degrees: int) -> list[Point]:
    """Return where the first long contour may begin."""
    taken = np.ones((SIZE, SIZE), bool)
    taken[2 * SEED_DISTANCE : -2 * SEED_DISTANCE, 2 * SEED_DISTANCE : -2 * SEED_DISTANCE] = False
    return _free(taken, degrees)


@cache
def _ring() -> tuple[list[Point], list[float]]:
    """Return where a dash may end, seen from its pivot, and the angles of these places."""
    distance = DASH + MARGIN
    around = np.arange(0, 360, 360 / (2 * distance * np.pi)) * np.pi / 180
    places = np.unique(np.floor(distance * np.stack([np.sin(around), np.cos(around)], 1)).astype(int), axis=0)
    return [(row, column) for row, column in places.tolist()], np.arctan2(places[:, 0], places[:, 1]).tolist()


@cache
def _ring_and_neighbours() -> np.ndarray:
    """Return the offsets in a flat canvas of the places of the ring and of their four neighbours [n, 5]."""
    at = np.array([row * _SIDE + column for row, column in _ring()[0]])
    return at[:, None] + [0, -_SIDE, _SIDE, -1, 1]


@cache
def _preferences(angle: float) -> np.ndarray:
    """Return how much a contour in that direction prefers each place of the ring [n]."""
    turns = np.abs(np.array(_ring()[1]) - angle)
    turns = np.minimum(np.minimum(turns, 2 * np.pi - turns) * CONTINUITY, np.pi / 2)
    return np.cos(turns) ** 2

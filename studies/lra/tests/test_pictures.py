import numpy as np
import pandas as pd
import pytest

from lib.core.errors import DataError
from lib.results.scope import Scope
from studies.lra.results.kinds.pictures import PicturesFigure

pytestmark = pytest.mark.extended


def documents(path, *rows):
    pd.DataFrame(rows, columns=["text", "label"]).to_parquet(path)
    return path


def drawn(examples=2, **files):
    shown = [(name, ["apart", "joined"], "test") for name in files]
    scope = Scope(models=[], stages={}, owners={}, documents=shown, files=list(files.values()))
    return PicturesFigure(kind="pictures", examples=examples).draw(scope).axes


def test_first_pictures_of_each_class(tmp_path):
    rows = [("0 255 7 1", 1), ("1 1 1 1", 0), ("2 2 2 2", 0), ("3 3 3 3", 0)]
    panels = drawn(paths=documents(tmp_path / "a.parquet", *rows))
    assert [axes.get_title("left") or axes.get_title() for axes in panels] == ["apart", "apart", "joined"]
    shown = [np.asarray(axes.get_images()[0].get_array()).tolist() for axes in panels]
    assert shown == [[[1, 1], [1, 1]], [[2, 2], [2, 2]], [[0, 255], [7, 1]]]
    assert {axes.get_images()[0].get_clim() for axes in panels} == {(0, 255)}


@pytest.mark.parametrize("text", ["1 2 3 256", "a film"])
def test_documents_without_a_picture(tmp_path, text):
    with pytest.raises(DataError, match=r"a.parquet: .* is no picture.*Name datasets of pictures"):
        drawn(paths=documents(tmp_path / "a.parquet", (text, 0)))

import itertools

import pytest
from run_records import scope_of, write_run

from lib.results.kinds.search import SearchFigure

AXES = {
    "task.classifier_pooling": ["cls", "mean"],
    "recipe.freeze_layers": [0, 1, 2],
    "task.classifier_dropout": [0.1, 0.2],
}


def search(root):
    """Draw a search whose scores rise from 0.50 by 0.01 from variant to variant."""
    variants = [dict(zip(AXES, values, strict=True)) for values in itertools.product(*AXES.values())]
    runs = [
        write_run(root, "search", "sdpa", dataset, variant=variant, eval_f1_macro=0.5 + 0.01 * place)
        for dataset in ("imdb", "arxiv")
        for place, variant in enumerate(variants)
    ]
    scope = scope_of(runs, {"search": ["imdb", "arxiv"]}, ["sdpa"], variants={"search": variants})
    return SearchFigure(kind="search", stage="search").draw(scope)


def maps_of(figure):
    return [axes for axes in figure.axes if axes.texts]


def numbers_of(axes):
    return axes.images[0].get_array().tolist()


def test_maps_of_the_last_two_settings(tmp_path):
    cls, cls_arxiv, mean, _ = maps_of(search(tmp_path))
    assert [axes.get_title("left") for axes in (cls, cls_arxiv, mean)] == [
        "imdb\nclassifier pooling: cls", "arxiv\nclassifier pooling: cls", "imdb\nclassifier pooling: mean",
    ]  # fmt: skip
    assert (cls.get_ylabel(), cls.get_xlabel()) == ("freeze layers", "classifier dropout")
    assert [label.get_text() for label in cls.get_yticklabels()] == ["0", "1", "2"]
    assert [label.get_text() for label in cls.get_xticklabels()] == ["0.1", "0.2"]
    assert list(itertools.chain(*numbers_of(cls))) == pytest.approx([50, 51, 52, 53, 54, 55])
    assert list(itertools.chain(*numbers_of(mean))) == pytest.approx([56, 57, 58, 59, 60, 61])
    assert [text.get_text() for text in cls.texts] == [f"{score}.00" for score in range(50, 56)]


def test_frame_of_the_best(tmp_path):
    framed = [[patch for patch in axes.patches if patch.get_gid() == "best"] for axes in maps_of(search(tmp_path))]
    assert [len(patches) for patches in framed] == [0, 0, 1, 1]
    assert (framed[2][0].get_x(), framed[2][0].get_y()) == (pytest.approx(0.54), pytest.approx(1.54))

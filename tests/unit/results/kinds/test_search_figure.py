import itertools

import pytest
from run_records import write_run

from lib.results.kinds.search import SearchFigure
from lib.results.scope import Scope

AXES = {
    "task.classifier_pooling": ["cls", "mean"],
    "recipe.freeze_layers": [0, 1, 2],
    "task.classifier_dropout": [0.1, 0.2],
}


def search(root, axes=AXES, datasets=("imdb", "arxiv"), seeds=(0,), models=("sdpa",)):
    """Draw a search whose scores rise from 0.50 by 0.01 from variant to variant, and by 0.02 from seed to seed."""
    variants = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    runs = [
        write_run(root, "search", model, dataset, seed, variant=variant, eval_f1_macro=0.5 + 0.01 * place + 0.02 * seed)
        for model in models
        for dataset in datasets
        for place, variant in enumerate(variants)
        for seed in seeds
    ]
    owners = {"search": {model: dict.fromkeys(datasets, model) for model in models}}
    files = [run / "run.json" for run in runs]
    scope = Scope(list(models), {"search": list(datasets)}, owners, variants={"search": variants}, files=files)
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


def test_maps_of_one_two_and_four_settings(tmp_path):
    single = maps_of(search(tmp_path / "one", {"recipe.epochs": [1, 2, 3]}, ["imdb"]))
    assert [numbers_of(axes) for axes in single] == [[pytest.approx([50, 51, 52])]]
    assert single[0].get_title("left") == "imdb"
    (pair,) = maps_of(search(tmp_path / "two", {"recipe.epochs": [1, 2], "recipe.batch_size": [8, 16, 32]}, ["imdb"]))
    assert (pair.get_ylabel(), pair.get_xlabel()) == ("epochs", "batch size")
    many = maps_of(search(tmp_path / "four", {"recipe.epochs": [1, 2], **AXES}, ["imdb"]))
    assert len(many) == 4
    assert many[3].get_title("left") == "imdb\nepochs: 2\nclassifier pooling: mean"
    assert numbers_of(many[3])[2] == pytest.approx([72, 73])

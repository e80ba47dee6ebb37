import pytest
from run_records import scope_of, write_geometry, write_run

from studies.decoders.results.kinds.geometry import CorrelationTable

pytestmark = pytest.mark.extended

MODELS = {  # F1, symmetry and directionality of two layers at the end
    "causal": (0.50, (0.1, 0.1), (0.0, 0.0)),
    "opened": (0.52, (0.2, 0.2), (0.1, 0.1)),
    "mlm": (0.54, (0.2, 0.4), (0.3, 0.3)),
    "mntp": (0.56, (0.4, 0.4), (0.0, 0.0)),
    "gradual": (0.58, (0.5, 0.5), (0.2, 0.2)),
}


def table_folders(tmp_path, models=MODELS):
    folders = []
    for model, (f1, symmetry, directionality) in models.items():
        folder = write_run(tmp_path, "finetune", model, "posts", test_f1_macro=f1)
        ends = zip(symmetry, directionality, strict=True)
        write_geometry(
            folder,
            *({"layer": layer, "symmetry": 0.0, "directionality": 0.0} for layer in range(2)),
            *(
                {"step": 9, "layer": layer, "symmetry": each, "directionality": other}
                for layer, (each, other) in enumerate(ends)
            ),
        )
        folders.append(folder)
    return folders


def table(tmp_path, base=None, models=MODELS):
    folders = table_folders(tmp_path, models)
    base = base or dict.fromkeys(list(models)[1:], "causal")
    settings = CorrelationTable(kind="correlation", stage="finetune", base=base)
    return settings.make(scope_of(folders, {"finetune": ["posts"]}, list(models)))


def test_correlation_of_differences(tmp_path):
    """By hand: symmetry rises by 0.1, 0.2, 0.3, 0.4 with F1 by 2, 4, 6, 8 points; directionality by 1, 3, 0, 2."""
    made = table(tmp_path)
    frame = made.frame.set_index("difference in")
    assert frame["pairs"].tolist() == [4, 4, 4]
    assert frame.loc["symmetry", ["pearson", "spearman"]].tolist() == pytest.approx([1, 1])
    assert frame.loc["directionality", ["pearson", "spearman"]].tolist() == pytest.approx([0, 0], abs=1e-9)
    assert frame.loc["directionality", ["low", "high"]].tolist() == pytest.approx([-0.961, 0.961], abs=1e-3)
    assert frame.loc["symmetry + directionality", "pearson"] == pytest.approx(0.5**0.5)
    assert frame.loc["symmetry", "spearman_p"] == pytest.approx(2 / 24)  # four pairs in one of two orders
    assert "opened - causal, mlm - causal" in made.note
    assert "0.0000: less than 0.00005." in made.note


def test_correlation_of_equal_pairs(tmp_path):
    base = {**dict.fromkeys(list(MODELS)[1:], "causal"), "twin": "causal", "opened_again": "causal"}
    folders = table_folders(tmp_path)
    settings = CorrelationTable(kind="correlation", stage="finetune", base=base)
    owners = {"finetune": {model: model for model in MODELS} | {"twin": "causal", "opened_again": "opened"}}
    rows = [*MODELS, "twin", "opened_again"]
    made = settings.make(scope_of(folders, {"finetune": ["posts"]}, rows, owners=owners))
    assert made.frame["pairs"].tolist() == [4, 4, 4]
    expected = table(tmp_path).frame
    assert made.frame.drop(columns="pairs").equals(expected.drop(columns="pairs"))

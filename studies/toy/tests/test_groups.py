import csv
import io

import pytest
from run_records import scope_of, write_group_predictions, write_run

from lib.core.errors import DataError
from studies.toy.results.kinds.groups import GroupScoreFigure, GroupsTable

STAGE = {"finetune": ["recall"]}
DISTANCES = {"groups": {"recall": "distance"}}


def table(folders, models, **settings):
    return GroupsTable(kind="groups", stage="finetune", **settings).make(scope_of(folders, STAGE, models, **DISTANCES))


@pytest.fixture
def folders(tmp_path):
    documents = {
        ("sdpa", 1): [(8, 1, 1), (8, 0, 0), (64, 1, 1), (64, 0, 1)],
        ("sdpa", 2): [(8, 1, 1), (8, 0, 0), (64, 1, 1), (64, 0, 0)],
        ("gru", 1): [(8, 1, 1), (8, 0, 1), (64, 1, 0), (64, 0, 1)],
        ("gru", 2): [(8, 1, 0), (8, 0, 0), (64, 1, 0), (64, 0, 1)],
    }
    return [
        write_group_predictions(write_run(tmp_path, "finetune", model, "recall", seed=seed), rows)
        for (model, seed), rows in documents.items()
    ]


def test_groups_as_columns(folders):
    """Worked out by hand: rows as asked for, groups ascending as numbers."""
    made = table(folders, ["sdpa", "gru"])
    assert made.to_csv() == (
        "model,distance_8,distance_8_sd,distance_64,distance_64_sd\n"
        "sdpa,100.00,0.00,75.00,35.36\n"
        "gru,50.00,0.00,0.00,0.00\n"
    )
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in made.to_markdown().splitlines()]
    assert cells[0] == ["model", "distance 8 [%]", "distance 64 [%]"]
    assert cells[2] == ["sdpa", "100.00 ± 0.00", "75.00 ± 35.36"]


def test_items_of_each_group(folders, tmp_path):
    assert table(folders, ["sdpa", "gru"]).note == "Labelled items of test by distance: 8 (2), 64 (2)."
    run = write_run(tmp_path, "finetune", "sdpa", "recall", seed=3)
    many = write_group_predictions(run, [(place, 1, 1) for place in range(21)] + [(0, 1, 1)])
    assert table([many], ["sdpa"]).note == "Labelled items of test by distance: 1 to 2 each of 21."
    figure = GroupScoreFigure(kind="group_score", stage="finetune", label="distance [words]")
    names = {"group_names": {"recall": [f"far {number}" for number in range(65)]}}
    (note,) = figure.notes(scope_of(folders, STAGE, ["sdpa", "gru"], **DISTANCES, **names))
    assert note == "Labelled items of test by distance [words]: far 8 (2), far 64 (2)."


def with_domains(tmp_path, domains):
    """Two seeds, whose groups have a document each, which is wrong and right in turn."""
    documents = [(name, 1, place % 2) for place, name in enumerate(domains)]
    runs = [write_run(tmp_path, "finetune", "sdpa", "recall", seed=seed) for seed in (1, 2)]
    folders = [write_group_predictions(run, documents) for run in runs]
    return scope_of(folders, STAGE, ["sdpa"], groups={"recall": "domain"})


def test_groups_of_any_names(tmp_path):
    domains = ["a b", "a_b", "a-b", "a  b", "model", "b", "domain"]
    made = GroupsTable(kind="groups", stage="finetune").make(with_domains(tmp_path, domains))
    heading, row = csv.reader(io.StringIO(made.to_csv()))
    assert dict(zip(heading[1::2], row[1::2], strict=True)) == {
        f"domain_{name}": f"{100 * (place % 2)}.00" for place, name in enumerate(domains)
    }


def test_groups_called_alike(tmp_path):
    found = with_domains(tmp_path, ["a", "a_sd"])
    with pytest.raises(DataError, match="recall: the groups a, a_sd .* two columns called domain_a_sd"):
        GroupsTable(kind="groups", stage="finetune").make(found)
    made = GroupsTable(kind="groups", stage="finetune", rows="groups").make(found)
    assert made.to_csv() == "domain,sdpa,sdpa_sd\na,0.00,0.00\na_sd,100.00,0.00\n"


def test_names_and_rows_of_groups(folders):
    """Numbers of documents are of the functions in their order; only some occur."""
    names = {"group_names": {"recall": [f"function {number}" for number in range(65)]}}
    scope = scope_of(folders, STAGE, ["sdpa", "gru"], **DISTANCES, **names)
    made = GroupsTable(kind="groups", stage="finetune").make(scope)
    assert made.to_csv().startswith("model,function 8,function 8_sd,function 64,function 64_sd\nsdpa,100.00,0.00,75.00")
    assert made.to_markdown().splitlines()[0].split("|")[2].strip() == "function 8 [%]"
    made = GroupsTable(kind="groups", stage="finetune", rows="groups", label="function").make(scope)
    assert made.to_csv() == (
        "function,sdpa,sdpa_sd,gru,gru_sd\nfunction 8,100.00,0.00,50.00,0.00\nfunction 64,75.00,35.36,0.00,0.00\n"
    )
    assert made.to_markdown().splitlines()[0].split("|")[2].strip() == "sdpa [%]"

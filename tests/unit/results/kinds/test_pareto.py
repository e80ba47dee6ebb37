import numpy as np
import pytest
from run_records import scope_of, write_predictions, write_run

from lib.core.record import read_record
from lib.core.record import write_run as write_record
from lib.results.kinds.pareto import ParetoTable

RUNS = {  # of both stages: seconds and MiB; documents of 200 that are wrong
    "sdpa": [(600, 1024), (60, 512), 20],
    "lsh-h2-c64": [(300, 2048), (60, 512), 23],
    "favor-m64": [(120, 512), (60, 3072), 80],
    "favor-m128": [(900, 1024), (60, 3072), 40],
}
"""The first is best and smallest, and the second faster at almost the same score; the last is dominated by both."""
LABELS = np.arange(200) % 2


def test_front_at_its_costs(tmp_path):
    """Time is the sum over both stages, memory the larger peak."""
    folders = []
    for model, (tapt, finetune, wrong) in RUNS.items():
        for stage, (seconds, memory) in (("tapt", tapt), ("finetune", finetune)):
            values = {"seconds": float(seconds), "peak_memory_mb": float(memory), "test_f1_macro": 1 - wrong / 200}
            folders.append(write_run(tmp_path, stage, model, "imdb", **values))
    settings = {"time_tolerance": 1.0, "memory_tolerance": 1.0, "intervals": False}
    parameters = ParetoTable(kind="pareto", stage="finetune", time=["tapt", "finetune"], **settings)
    shown = parameters.make(scope_of(folders, {"tapt": ["imdb"], "finetune": ["imdb"]}, list(RUNS), baseline="tfidf"))
    assert shown.to_csv() == (
        "dataset,model,f1_macro_percent,minutes,peak_memory_gib,front,dominated_by\n"
        "imdb,sdpa,90.00,11.000,1.00,yes,\n"
        "imdb,lsh-h2-c64,88.50,6.000,2.00,yes,\n"
        "imdb,favor-m64,60.00,3.000,3.00,yes,\n"
        'imdb,favor-m128,80.00,16.000,3.00,no,"sdpa, lsh-h2-c64"\n'
    )
    assert "Time is that of training in tapt and finetune, memory the largest peak there." in shown.note
    assert shown.note.endswith("Differences in memory that count as none: imdb 1.0 %.")


def with_costs(root, costs, seed=0):
    """Runs of one stage: model -> seconds, MiB, documents of 200 that are wrong."""
    folders = []
    for model, (seconds, memory, wrong) in costs.items():
        values = {"seconds": float(seconds), "peak_memory_mb": memory, "test_f1_macro": 1 - wrong / 200}
        folders.append(write_run(root, "finetune", model, "imdb", seed=seed, **values))
        predictions = np.where(np.arange(200) < wrong, 1 - LABELS, LABELS)
        write_predictions(folders[-1], ["no", "yes"], LABELS, predictions)
    return folders


def of_one_stage(folders, models, **settings):
    parameters = ParetoTable(kind="pareto", stage="finetune", time=["finetune"], **settings)
    return parameters.make(scope_of(folders, {"finetune": ["imdb"]}, models))


@pytest.mark.parametrize("settings", [{}, {"time_tolerance": 20}])
def test_times_on_other_hardware(tmp_path, settings):
    """The second model is the fastest, but on another machine, and worse than the first in all else."""
    costs = {"sdpa": (100, 1000.0, 10), "lsh-h2-c64": (50, 2000.0, 28), "favor-m64": (140, 500.0, 28)}
    folders = [folder for seed in (0, 1) for folder in with_costs(tmp_path, costs, seed)]
    same = of_one_stage(folders, list(costs), **settings)
    assert same.frame["front"].tolist() == ["yes", "yes", "yes"]
    assert "hardware" not in same.note
    for folder in folders:
        if "lsh" in str(folder):
            write_record(folder, read_record(folder).model_copy(update={"hardware": "a cluster"}))
    other = of_one_stage(folders, list(costs), **settings)
    assert other.frame["front"].tolist() == ["yes", "no", "yes"]
    assert "Trainings on imdb ran on different hardware: time is shown and does not decide there." in other.note
    assert "No model's time is repeated" not in other.note

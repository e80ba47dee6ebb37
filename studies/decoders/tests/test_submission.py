"""Submissions to the shared task: what is written is what was found, in the form of its own file."""

import runpy
from pathlib import Path

import pandas as pd
import pytest
from run_records import write_run, write_spans

from lib.reading.spans import parse_spans

pytestmark = pytest.mark.extended

TOOL = runpy.run_path(str(Path(__file__).resolve().parents[3] / "studies/decoders/scripts/submission.py"))
write_submission = TOOL["write_submission"]


def test_submission_of_a_run(tmp_path):
    folder = write_spans(write_run(tmp_path, "find", "sdpa", "posts"), [(3, 1, 0), (0, 0, 2)])
    frame = pd.read_parquet(folder / "predictions.parquet")
    pd.concat([frame, frame.assign(split="validation", id=["v0", "v1"])]).to_parquet(folder / "predictions.parquet")
    TOOL["main"](["--run", str(folder), "--out", str(tmp_path / "submission.csv")])
    assert (tmp_path / "submission.csv").read_text() == 'id,trigger_words\nd0,"[(0, 4)]"\nd1,[]\n'


@pytest.mark.real
def test_submission_of_the_solution(shared, tmp_path):
    solution = pd.read_csv(shared / "data" / "unlp2025" / "solution.csv", keep_default_na=False)
    spans = solution["trigger_words"].map(parse_spans)
    folder = write_spans(write_run(tmp_path, "find", "sdpa", "posts"), [(1, 0, 0)] * len(solution))
    frame = pd.read_parquet(folder / "predictions.parquet").assign(id=solution["id"], prediction=spans)
    frame.to_parquet(folder / "predictions.parquet")
    write_submission(folder, tmp_path / "submission.csv")
    written = pd.read_csv(tmp_path / "submission.csv")
    assert written["id"].equals(solution["id"])
    # The same text, but for posts without spans, which the solution leaves empty.
    assert written["trigger_words"].replace("[]", "").equals(solution["trigger_words"])
    assert (written["trigger_words"] == "[]").sum() == 1_828

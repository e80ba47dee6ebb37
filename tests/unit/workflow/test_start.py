"""A job is refused if a file of its plan is gone, and only then."""

import pytest

from lib.core.errors import ConfigError
from lib.workflow.planning.planned import Planned
from lib.workflow.start import check_files


@pytest.mark.parametrize("suffix", ["json", "txt"])
@pytest.mark.parametrize("results", ["results", "results/planned"])
@pytest.mark.parametrize("prefix", ["", "@"])
def test_a_job_whose_planned_file_is_gone_is_refused(suffix, results, prefix, tmp_path):
    planned = Planned("settings", f"{tmp_path}/{results}/planned", suffix, writes_itself=False)
    with pytest.raises(ConfigError, match="not there"):
        check_files(["python", "--config", f"{prefix}{planned.path}"])
    planned.write()
    check_files(["python", "--config", f"{prefix}{planned.path}"])


@pytest.mark.parametrize("folder", ["runs", "work", "code", "work/planned"])
def test_a_study_may_be_called_planned(folder):
    check_files(["python", "--out", f"results/planned/{folder}", "--code", "0123456789abcdef"])

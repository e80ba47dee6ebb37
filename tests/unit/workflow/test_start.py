"""A job is refused if its code or a file of its plan is another, or gone, and only then."""

import pytest
from code_digests import at, forget

from lib.core import program
from lib.core.errors import ConfigError
from lib.core.files import mapping_text
from lib.study.configuration import load_study, merged, read_layers
from lib.workflow import start
from lib.workflow.planning.planned import Planned
from lib.workflow.staleness.digests import code_digest
from lib.workflow.staleness.kept_code import keep_code


def test_job_without_its_planned_file(tmp_path):
    for suffix, prefix in (("json", ""), ("txt", "@")):
        planned = Planned("settings", f"{tmp_path}/planned/planned", suffix, writes_itself=False)
        with pytest.raises(ConfigError, match="not there"):
            start.check_files(["python", "--config", f"{prefix}{planned.path}"])
        planned.write()
        start.check_files(["python", "--config", f"{prefix}{planned.path}"])


@pytest.mark.parametrize("folder", ["runs", "work/planned"])
def test_study_called_planned(folder):
    start.check_files(["python", "--out", f"results/planned/{folder}", "--code", "0123456789abcdef"])


def test_job_with_other_code(tmp_path, monkeypatch):
    for name, text in (("lib/far.py", "FAR = 1\n"), ("scripts/train.py", "from lib.far import FAR\nprint(FAR)\n")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    at(tmp_path, monkeypatch)
    monkeypatch.setattr(start, "hand_over", lambda command: 7)
    monkeypatch.setenv(program.CHECKED, "")  # which it sets
    digest = forget(code_digest, "scripts/train.py")
    keep_code(tmp_path / "code", [digest])
    call = ["--code", f"{tmp_path}/code/{digest}.json", "python"]
    assert start.main(call) == 7
    (tmp_path / "lib/far.py").write_text("FAR = 2\n")
    with pytest.raises(ConfigError, match="lib/far.py: `FAR` changed"):
        forget(start.main, call)
    forget(lambda: None)


def test_study_of_its_copy(tmp_path, repository):
    """A job on a node reads the study from a copy, which is as its files are."""
    for path in (repository / "config").glob("*.yaml"):
        layers = read_layers([path])
        (tmp_path / "copy.yaml").write_text(mapping_text(merged(layers)))
        assert load_study(read_layers([tmp_path / "copy.yaml"])) == load_study(layers)

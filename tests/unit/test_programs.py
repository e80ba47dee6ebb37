"""Programs of the workflow stand in `scripts/`, programs that one runs by hand in `scripts/tools/`."""

import re


def test_programs_are_those_that_the_workflow_calls(repository):
    rules = "".join(path.read_text() for path in sorted((repository / "workflow").rglob("*.smk")))
    called = set(re.findall(r'(?:scripts/|(?:program|coded)\(")([a-z_]+)', rules))
    called |= {"train", "evaluate", "tune"} | {"table", "figure"}  # chosen by what a rule makes: a run, a result
    assert called == {path.stem for path in (repository / "scripts").glob("*.py")}

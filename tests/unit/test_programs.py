"""Programs of the workflow stand in `scripts/`, programs that one runs by hand in `scripts/tools/`."""

import re


def test_every_program_is_called_by_the_workflow_and_no_tool_is(repository):
    rules = "".join(path.read_text() for path in sorted((repository / "workflow").rglob("*.smk")))
    called = set(re.findall(r'(?:scripts/|(?:program|coded)\(")([a-z_]+)', rules))
    called |= {"train", "evaluate", "tune"} | {"table", "figure"}  # chosen by what a rule makes: a run, a result
    assert called == {path.stem for path in (repository / "scripts").glob("*.py")}


def test_every_program_that_the_rules_of_a_study_call_is_its_own(repository):
    for rules in (repository / "studies").glob("*/rules/*.smk"):
        own = "/".join(rules.relative_to(repository).parts[:2])
        called = re.findall(r'(?:program|coded)\("([^"]+)"', rules.read_text())
        assert called
        assert all(name.startswith(f"{own}/scripts/") and (repository / f"{name}.py").is_file() for name in called)


def test_a_page_or_the_makefile_names_every_tool(repository):
    pages = [*repository.glob("*.md"), *(repository / "docs").glob("*.md"), repository / "Makefile"]
    text = "".join(page.read_text() for page in pages if page.name != "CHANGELOG.md")
    tools = [path.name for path in (repository / "scripts/tools").iterdir() if path.suffix in (".py", ".sh")]
    assert [tool for tool in tools if f"scripts/tools/{tool}" not in text] == []

"""Numbers on pages that follow from other numbers on them are computed again."""

import re

import pytest
import yaml

from lib.advice.encoders import ENCODERS

INTERVAL = re.compile(r"(-?[\d.]+)\s+\((-?[\d.]+) to (-?[\d.]+)\)")


@pytest.fixture
def page(repository):
    return lambda name: (repository / name).read_text(encoding="utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("| ").split("|")]


def test_intervals_on_hate_speech_follow_from_the_table(page):
    text = page("studies/hate_speech/README.md")
    scores = {}
    for line in text.partition("| tweets | forum |")[2].partition("\n\n")[0].splitlines()[2:]:
        name, *values = cells(line)[:3]
        numbers = [tuple(map(float, value.strip("*").split(" ± "))) for value in values]
        scores[name.partition("`,")[0].strip("`")] = numbers
    code = re.search(r"```python\n(from math.*?)```", text, re.DOTALL).group(1)
    given = {}
    exec(code.partition("\nprint")[0], given)
    compared = re.findall(r"\(`([\w-]+)`\s+minus `([\w-]+)`\)(.*?)(?=\n- |\n\n)", text, re.DOTALL)
    assert len(compared) == 6
    for one, other, said in compared:
        for found, mine, theirs in zip(INTERVAL.findall(said)[:2], scores[one], scores[other], strict=True):
            expected = given["difference"](*mine, *theirs)
            assert [float(number) for number in found] == pytest.approx(expected, abs=0.051), (one, other)


def test_lead_of_a_bag_of_words_is_over_all_rows(page):
    text = page("studies/lra/README.md")
    published = text.partition("| published row |")[2].partition("\n\n")[0].splitlines()[2:]
    best = max(float(cells(line)[2]) for line in published)
    bag = float(re.search(r"25,000 it has ([\d.]+) %", text).group(1))
    rows, lead = re.search(
        r"All\s+(\w+) accuracies of the column `text`.*?at least (\d+) points", text, re.DOTALL
    ).groups()
    assert (rows, len(published)) == ("eight", 8)
    assert round(bag - best) == int(lead)
    choice = page("docs/benchmarks.md")
    assert f"{lead} points more than the best of the eight rows" in choice
    assert f"({best:.1f} %)" in choice


def revisions(values):
    """Yield each repository that a configuration names, with its revision."""
    if isinstance(values, dict):
        if isinstance(values.get("repository"), str) and "revision" in values:
            yield values["repository"], values["revision"]
        values = values.values()
    for each in values if not isinstance(values, str) and hasattr(values, "__iter__") else ():
        yield from revisions(each)


def test_commit_that_one_configuration_names_is_of_all(repository):
    """Also in the models that a user may add, behind `#- `."""
    found = {
        pair
        for path in sorted([*repository.glob("config/*.yaml"), *repository.glob("studies/*/*.yaml")])
        for pair in revisions(yaml.safe_load(path.read_text(encoding="utf-8").replace("#- ", "")))
    }
    found |= {(encoder.place["repository"], encoder.place["revision"]) for encoder in ENCODERS.values()}
    known = {repository for repository, revision in found if revision != "main"}
    assert len(known) > 5
    assert [repository for repository, revision in sorted(found) if revision == "main" and repository in known] == []


def test_times_of_the_readme_follow_from_the_costs(page):
    """Two columns are of attention alone, two of a step of the whole encoder."""
    shares = []
    for title in ("Without padding", "Training step"):
        text = page("benchmarks/attention_cost.md").partition(f"\n### {title}\n")[2].strip()
        titles, _, *rows = [cells(line) for line in text.partition("\n\n")[0].splitlines()]
        times = {}
        for row in rows:
            if row[0] == "ours":
                row = dict(zip(titles, row, strict=True))
                times[row.get("mechanism", row.get("model"))] = [row["512 [ms]"], row["16,384 [ms]"]]
        numbers = {
            name: [float(time.split(" ")[0].strip("*").replace(",", "")) for time in found]
            for name, found in times.items()
            if "-" not in found
        }
        shares.append(
            {
                name: [f"{a / b:.2f}" for a, b in zip(found, numbers["sdpa"], strict=True)]
                for name, found in numbers.items()
            }
        )
    alone, steps = shares
    steps["window-w256-g1"] = steps["window-w128-g0"]
    table = page("README.md").partition("| mechanism | a token sees |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) == 11
    for name, _, *said in map(cells, table):
        expected = alone[name.strip("`")] + steps.get(name.strip("`"), ["-", "-"])
        assert [cell.replace("1.00", "1") for cell in expected] == said, name

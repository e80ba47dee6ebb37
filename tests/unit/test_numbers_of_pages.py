"""Numbers on pages are those of the shipped tables, and those that follow from others are computed again.

`tables/` next to a page holds its results as CSV. `sources.csv` says where each table comes from, `numbers.csv` names
the numbers of the page's sentences, and whether a table holds them or the page alone. After a change of a page, run
this file as a program, and read what git shows.
"""

import csv
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest
import yaml

from lib.advice.encoders import ENCODERS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(
    path.parent for path in [*ROOT.glob("*/tables/sources.csv"), *ROOT.glob("studies/*/tables/sources.csv")]
)
NOT_READ = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->|!?\]\([^)]*\)|https?://\S+", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+|(?=\s(?:%|points?\b|to\s-?[\d.]+\s(?:%|points?\b))))")


@pytest.fixture
def page(repository):
    return lambda name: (repository / name).read_text(encoding="utf-8")


def cells(line):
    return [cell.strip() for cell in line.strip("| ").split("|")]


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def plain(cell):
    return re.sub(r"\s+", " ", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell).replace("**", "").replace("`", "")).strip()


def results(line):
    """Whether a line is a row of a table of results, and not of sentences."""
    numbers = [bool(re.match(r"\W*\d", cell)) for cell in cells(line)[1:]]
    return line.startswith("|") and sum(numbers) > len(numbers) / 2


@cache
def tables(folder):
    """Return the tables that a folder ships, by file."""
    return {name: rows_of(folder / name) for name, *_ in rows_of(folder / "sources.csv")[1:]}


def pages(folder):
    """Return the pages with results that a folder of tables belongs to."""
    found = sorted({page for _, page, *_ in rows_of(folder / "sources.csv")[1:]})
    return [folder.parent / page for page in found]


def numbers(page, folder):
    """Return page, heading, number, and whether a table holds it, in the order of the page's sentences."""
    shipped = FOLDERS if folder.parent.name == "docs" else [folder]  # pages of docs/ tell results of studies
    texts = " ".join(cell for each in shipped for rows in tables(each).values() for row in rows for cell in row)
    held = {*re.findall(r"-?\d[\d,]*(?:\.\d+)?", texts)}
    heading, found = "", []
    for part in re.split(r"(?m)^(#.*)$", NOT_READ.sub(" ", page.read_text(encoding="utf-8"))):
        if part.startswith("#"):
            heading = part.strip("# ")
            continue
        for number in NUMBER.findall("\n".join(line for line in part.splitlines() if not results(line))):
            found.append([page.name, heading, number, "table" if {number, number.lstrip("-")} & held else "page"])
    return found


def ledger(folder):
    return [["page", "heading", "number", "in"], *(row for page in pages(folder) for row in numbers(page, folder))]


def test_pages_with_results_have_shipped_tables():
    assert len(FOLDERS) > 10
    for folder in FOLDERS:
        assert {*tables(folder)} == {path.name for path in folder.glob("*.csv")} - {"sources.csv", "numbers.csv"}, (
            folder
        )
        assert all(source for *_, source in rows_of(folder / "sources.csv")), folder


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_numbers_of_a_page_are_those_of_its_tables(folder):
    """A number of a table or a sentence that somebody edits on the page alone is found."""
    assert rows_of(folder / "numbers.csv") == ledger(folder)
    shipped = [row for rows in tables(folder).values() for row in rows]
    for page in pages(folder):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for table in re.findall(r"(?m)(?:^\|.*\|\n)+", text):
            lines = table.splitlines()[2:]
            rows = [[plain(cell) for cell in cells(line)] for line in lines if results(line)]
            for row in rows if len(re.findall(r"\d\.\d", str(rows))) >= 3 else ():
                in_order = (iter(each) for each in shipped if row[0] in each)
                assert any(all(cell in rest for cell in row) for rest in in_order), f"{page}: {row}"


def test_answer_has_what_the_study_printed(page):
    printed = pd.read_csv(ROOT / "lib/results/printed/grid.csv").query(
        "table in ('4.10', '4.13') and stage != 'pretrain'"
    )
    f1, more = (
        printed.query("quantity == @name")
        .astype({"value": float})
        .pivot(index="dataset", columns="model", values="value")
        for name in ("f1_macro_percent", "time_delta_percent")
    )
    for dataset, score in f1.iterrows():
        lsh, favor = (
            f"{score[each]:.2f} in {1 + more[each][dataset] / 100:.2f}" for each in ("lsh-h2-c64", "favor-m64")
        )
        row = f"| {score['sdpa']:.2f} | LSH {lsh}, FAVOR+ {favor} | {score['tfidf']:.2f} |"
        assert row in page("README.md")
        assert row in page("docs/answer.md")


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


if __name__ == "__main__":
    for place in FOLDERS:
        with (place / "numbers.csv").open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows(ledger(place))

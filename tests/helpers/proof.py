"""Whether every table and figure of random studies shows what an independent computation says.

python tests/helpers/proof.py --studies 1000 --first 0

prints every difference: the number of the study, the result, its row and column, what was found and what is expected.
"""

import argparse
import csv
import json
import re
import runpy
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from expected_figures import expected_figure, read, unlike
from expected_refusals import refusals
from expected_runs import Words, write
from expected_tables import Cell, Expected, View, expected_table, results
from random_reports import add_report
from random_studies import Draw, random_study

from lib.core.errors import ConfigError, DataError
from lib.core.record import RunId
from lib.results.scope import scope
from lib.results.settings import FIGURES
from lib.study.configuration import load_study
from lib.study.execution import ROOT
from lib.workflow.planning.plan import Plan

make_table: Callable[[Sequence[str]], None] = runpy.run_path(str(ROOT / "scripts" / "table.py"))["main"]
"""The program that makes a table."""

SEEN: Counter[str] = Counter()
"""How many results of each kind were compared, and how many studies had some that were refused."""
RESULT = re.compile(r"report\.(tables|figures)\.(\w+)")
ROUNDS = 5
"""Of taking refused results out, at most."""


class Difference(NamedTuple):
    """Something that a study shows otherwise than expected."""

    study: int
    kind: str
    """Of table or figure; `runs` or `refusal` where it is none."""
    result: str
    place: str
    found: str
    expected: str

    def __str__(self) -> str:
        return (
            f"study {self.study}, {self.kind} {self.result}, {self.place}: found {self.found}, expected {self.expected}"
        )


def make_study(number: int, results_folder: str) -> dict[str, Any]:
    """Return the study of that number with its report."""
    study = random_study(number, results_folder)
    add_report(Draw(1_000_000 + number), study)
    return study


def differences(number: int, folder: Path) -> Iterator[Difference]:
    """Yield what one study shows otherwise than expected."""
    root = folder / f"study{number}"
    study = make_study(number, str(root))
    words = Words(study, number)
    found, of_refusals = _plan(number, study, words)
    yield from of_refusals
    if found is None:
        return
    if of_runs := list(_runs(number, words, found)):
        yield from of_runs  # tables of other runs say nothing
        return
    write(root, words)
    yield from _tables(number, words, found, root)
    yield from _figures(number, words, found)
    shutil.rmtree(root)


def _plan(number: int, study: dict[str, Any], words: Words) -> tuple[Plan | None, list[Difference]]:
    """Return the plan of a study without the results that are refused, and what is refused against expectation."""
    problems: list[Difference] = []
    report = study["report"]
    SEEN["studies"] += 1
    for attempt in range(ROUNDS):
        expected = refusals(words)
        try:
            plan = Plan(load_study([("study.yaml", study)]))
        except ConfigError as error:
            sentences = str(error).split("\n- ")[1:]
        else:
            for each in expected:
                problems.append(Difference(number, "refusal", each.entry, each.section, "none", each.phrase))
                report[each.section].pop(each.entry, None)
            return plan, problems
        SEEN["studies with a refusal"] += attempt == 0
        named = [match.groups() for each in sentences if (match := RESULT.search(each))]
        for sentence in sentences:
            match = RESULT.search(sentence)
            fitting = [each for each in expected if match and match.groups() == (each.section, each.entry)]
            reasons = [each.phrase for each in fitting if each.phrase in sentence]
            SEEN[f"refused: {(reasons or ['?'])[0].partition(' called')[0]}"] += 1
            if not reasons:
                problems.append(Difference(number, "refusal", "study", "-", sentence, "no refusal"))
        if not named:
            return None, problems
        for section, entry in named:
            report[section].pop(entry, None)
    return None, problems


def _runs(number: int, words: Words, plan: Plan) -> Iterator[Difference]:
    """Compare the runs of the study, and what each starts from, by their names."""
    found = {run.id.path: run for run in plan.runs}
    expected = {run.path: run for run in words.runs}
    for path in sorted(found.keys() ^ expected.keys()):
        yield Difference(number, "runs", path, "-", str(path in found), str(path in expected))
    for path in sorted(found.keys() & expected.keys()):
        run = expected[path]
        place = words.parent(run.model, run.stage, run.entry) if run.trains else None
        parent = None
        if place is not None:
            parent = words.made(run.model, *place, words.seed_before(place, run.seed)).path
        started: RunId | None = found[path].parent
        if (started and started.path) != parent:
            yield Difference(number, "runs", path, "start", str(started and started.path), str(parent))
        searcher, source = words.searcher(run.model, run.stage), words.stages[run.stage].get("settings_from")
        best = [f"{source}/{words.owner(searcher, source, run.entry)}/{run.entry}.json"] if searcher and source else []
        taken = [file.split("/search/")[-1] for file in plan.settings_from(found[path])]
        if taken != best:
            yield Difference(number, "runs", path, "settings from", str(taken), str(best))


def _tables(number: int, words: Words, plan: Plan, root: Path) -> Iterator[Difference]:
    wanted = results(words, "tables")
    names = [name for name, _, _ in wanted]
    if list(plan.report.tables) != names:
        yield Difference(number, "names", "tables", "-", str(list(plan.report.tables)), str(names))
    for name, _, view in wanted:
        kind = view.settings.get("kind", "stage")
        if name not in plan.report.tables or names.count(name) > 1:
            continue
        shown = plan.report.tables[name]
        SEEN[f"table {kind}"] += 1
        files = [root / "tables" / f"{name}.{suffix}" for suffix in ("csv", "md")]
        table = expected_table(view)
        try:
            arguments = ["--table", json.dumps(shown), "--records", *plan.report.inputs(shown["scope"])]
            make_table([*arguments, "--out", *map(str, files)])
        except Exception as error:  # whatever it is, it is no table
            # Names of the study may meet, also in columns that would be there with more seeds.
            if not (isinstance(error, DataError) and "have the same name" in str(error)):
                yield Difference(number, kind, name, "-", f"{type(error).__name__}: {error}", "a table")
            elif len(table.columns) == len(set(table.columns)):
                yield Difference(number, kind, name, "columns", str(error), "different names")
            continue
        for place, found, expected in _unlike(files[0], files[1].read_text(), table, view):
            yield Difference(number, kind, name, place, found, expected)


def _figures(number: int, words: Words, plan: Plan) -> Iterator[Difference]:
    wanted = results(words, "figures")
    names = [name for name, _, _ in wanted]
    if list(plan.report.figures) != names:
        yield Difference(number, "names", "figures", "-", str(list(plan.report.figures)), str(names))
    for name, _, view in wanted:
        kind = view.settings["kind"]
        if name not in plan.report.figures or names.count(name) > 1:
            continue
        shown = plan.report.figures[name]
        SEEN[f"figure {kind}"] += 1
        try:
            settings = FIGURES.parse(shown["settings"])
            figure = settings.draw(scope(shown["scope"], plan.report.inputs(shown["scope"])))
        except Exception as error:  # whatever it is, it is no figure
            yield Difference(number, f"figure {kind}", name, "-", f"{type(error).__name__}: {error}", "a figure")
            continue
        for place, found, expected in unlike(read(figure, kind), expected_figure(view), kind):
            yield Difference(number, f"figure {kind}", name, place, found, expected)


def _unlike(file: Path, page: str, expected: Expected, view: View) -> Iterator[tuple[str, str, str]]:
    """Yield where a table differs: the place, what was found and what is expected."""
    with file.open(newline="") as lines:
        header, *rows = csv.reader(lines)
    if header != expected.columns:
        yield "columns", str(header), str(expected.columns)
        return
    if len(rows) != len(expected.rows):
        yield "rows", str([row[:2] for row in rows]), str([row[:2] for row in expected.rows])
        return
    for found, wanted in zip(rows, expected.rows, strict=True):
        for column, cell, value in zip(header, found, wanted, strict=True):
            if not _agrees(cell, value):
                yield f"row {found[:2]}, column {column}", cell, str(value)
    names = dict.fromkeys([*view.named, *filter(None, view.beside.values())])
    without_row = [f"{name} (as {view.row_of[name]})" for name in names if view.row_of.get(name, name) != name]
    for sentence in [*expected.said, *without_row]:
        if sentence not in page:
            yield "note", page.strip().split("\n")[-1], sentence


def _agrees(cell: str, value: Cell) -> bool:
    """Whether a printed cell shows a value, rounded as it is printed."""
    if value is None or value != value:
        return cell == ""
    if isinstance(value, str):
        return cell == value
    try:
        number = float(cell)
    except ValueError:
        return False
    decimals = len(cell.partition(".")[2])
    return abs(number - value) <= 0.5 * 10**-decimals * (1 + 1e-6) + 1e-9 * abs(value)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--first", type=int, default=0)
    arguments = parser.parse_args(argv)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.first, arguments.first + arguments.studies):
            for difference in differences(number, Path(folder)):
                print(difference, flush=True)
                counts[difference.kind] += 1
    print(f"compared: {dict(sorted(SEEN.items()))}")
    print(f"differences by kind: {dict(counts) or 'none'}")
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main())

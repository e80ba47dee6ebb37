"""Which tables and figures of a study would be ambiguous or empty, so that validation must refuse them."""

from collections import Counter
from collections.abc import Iterator

from expected_runs import Words
from expected_tables import comparable, expected_table, pairs_of, results

MADE_OF_NAMES = {"stage", "history", "search", "groups"}
"""Kinds of tables whose columns are made of names of the study."""

WITHOUT_BASELINE = {"pareto", "requirements", "score_time", "score_intervals"}
"""Kinds in which the baseline has no row."""


class Refusal:
    """A table or figure that validation must refuse, or may refuse.

    Args:
        section: `tables` or `figures`.
        entry: its name in the report.
        phrase: part of the reason.
        must: whether it is wrong in any case; else only names that may meet with other seeds are at fault.
    """

    def __init__(self, section: str, entry: str, phrase: str, *, must: bool = True):
        self.section, self.entry, self.phrase, self.must = section, entry, phrase, must


def refusals(words: Words) -> list[Refusal]:
    """Return every reason to refuse a result of a study."""
    return [*_files(words), *_comparisons(words), *_costs(words), *_columns(words)]


def _files(words: Words) -> Iterator[Refusal]:
    """Yield results whose files would have the name of another one's."""
    for section in ("tables", "figures"):
        first: dict[str, tuple[str, str | None]] = {}
        for name, entry, view in results(words, section):
            key = name.replace("-", "_").replace(".", "_").lower()
            if first.setdefault(key, (entry, view.dataset)) != (entry, view.dataset):
                yield Refusal(section, entry, f"makes {section} called {name}")


def _comparisons(words: Words) -> Iterator[Refusal]:
    """Yield comparisons of rows that are the same everywhere, and stages that are compared twice."""
    for section in ("tables", "figures"):
        for _, entry, view in results(words, section):
            settings, phrase = view.settings, "so there is no difference"
            if settings.get("kind") == "requirements" and view.reference == view.baseline:
                yield Refusal(section, entry, "which has the same runs")
            if settings.get("kind") in WITHOUT_BASELINE and view.rows and not view.trained:
                yield Refusal(section, entry, "and has no row")
            if settings.get("kind") == "geometry":
                places = [(row, at, stage) for row in view.rows for stage in view.stages for at in view.stages[stage]]
                trained = Counter((row, at) for row, at, stage in places if view.runs(row, stage, at))
                if any(count > 1 for (row, _), count in trained.items() if words.kind(row) != "tfidf"):
                    yield Refusal(section, entry, "a line is of one stage")
            kind = settings.get("kind")
            if kind in ("significance", "answer") and not comparable(view):
                yield Refusal(section, entry, "so there is nothing to compare")
            sides: list[tuple[set[str], set[str]]] = []
            if settings.get("pairs"):
                sides += [({one}, {other}) for one, other in pairs_of(view)]
            if settings.get("kind") == "correlation":
                sides += [({view.row_of[one]}, {view.row_of[other]}) for one, other in settings["base"].items()]
            if settings.get("kind") == "scaling" and settings.get("against"):
                curves = {name: {view.row_of[model] for model in each} for name, each in settings["curves"].items()}
                sides += [
                    (rows, curves[settings["against"]]) for name, rows in curves.items() if name != settings["against"]
                ]
            if any(one == other for one, other in sides):
                yield Refusal(section, entry, phrase)


def _costs(words: Words) -> Iterator[Refusal]:
    """Yield results that count a stage whose runs no run shown comes from, nor is it on the same dataset."""
    for section in ("tables", "figures"):
        for _, entry, view in results(words, section):
            if view.settings.get("kind") not in ("pareto", "requirements", "score_time"):
                continue
            for stage in view.settings["time"]:
                places = [
                    (row, at) for row in view.rows for at in view.stages[view.stage] if view.runs(row, view.stage, at)
                ]
                if view.rows and not any(view.counts(row, view.stage, at, stage) for row, at in places):
                    yield Refusal(section, entry, "adds nothing")


def _columns(words: Words) -> Iterator[Refusal]:
    """Yield tables with two columns of one name, or with names that would meet if there were more seeds."""
    given = [*words.stages, *words.datasets, *words.corpora, *words.models]
    endings = [name for name in given if name.endswith(("_sd", "published"))]
    for _, entry, view in results(words, "tables"):
        if view.settings.get("kind", "stage") not in MADE_OF_NAMES or not view.rows:
            continue
        columns = expected_table(view).columns
        twice = [name for name, count in Counter(columns).items() if count > 1]
        if twice:
            yield Refusal("tables", entry, "two columns called")
            continue
        of_model = {"search": "model" in columns, "history": "epoch" in view.rows}.get(view.settings.get("kind", ""))
        may_meet = any(name.endswith(ending) for name in columns for ending in endings)
        if may_meet or of_model:  # also of a model that leaves no column
            yield Refusal("tables", entry, "two columns called", must=False)

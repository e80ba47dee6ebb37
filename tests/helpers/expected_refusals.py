"""Which tables and figures of a study would be ambiguous or empty, so that validation must refuse them."""

from collections import Counter
from collections.abc import Iterator

from expected_runs import Words
from expected_tables import comparable, results, shown_entries, stages_passed

WITHOUT_BASELINE = {"pareto", "requirements", "score_time"}
"""Kinds in which the baseline has no row."""


OF_ONE_CLASS = {"abstention", "confusion", "detection", "errors", "groups", "group_score"}
"""Kinds that show the class of each document, which then must have one."""


class Refusal:
    """A table or figure that validation must refuse.

    Args:
        section: `tables` or `figures`.
        entry: its name in the report.
        phrase: part of the reason.
    """

    def __init__(self, section: str, entry: str, phrase: str):
        self.section, self.entry, self.phrase = section, entry, phrase


def refusals(words: Words) -> list[Refusal]:
    """Return every reason to refuse a result of a study."""
    return [*_files(words), *_comparisons(words), *_of_sets(words)]


def _of_sets(words: Words) -> Iterator[Refusal]:
    """Yield results that show the one class of each document, where documents have sets of classes."""
    for section in ("tables", "figures"):
        for entry, settings in words.study["report"].get(section, {}).items():
            kinds = OF_ONE_CLASS | ({"state_size"} if section == "figures" else set())
            stages = stages_passed(settings) if settings.get("kind") in kinds else []
            places = [(stage, at) for stage in stages for at in shown_entries(words, settings, stage) if words.sets(at)]
            models = settings.get("models") or words.models
            if any(words.has_run(model, *place) for place in places for model in models):
                yield Refusal(section, entry, "shows one class per document")


def _files(words: Words) -> Iterator[Refusal]:
    """Yield results whose files would have the name of another one's."""
    for section in ("tables", "figures"):
        first: dict[str, tuple[str, str | None]] = {}
        for name, entry, view in results(words, section):
            key = name.replace("-", "_").replace(".", "_").lower()
            if first.setdefault(key, (entry, view.dataset)) != (entry, view.dataset):
                yield Refusal(section, entry, "would share files called")


def _comparisons(words: Words) -> Iterator[Refusal]:
    """Yield comparisons of rows that are the same everywhere, and results without a row."""
    for section in ("tables", "figures"):
        for _, entry, view in results(words, section):
            kind = view.settings.get("kind")
            alone = kind == "requirements" and view.reference == view.baseline
            if alone or (kind in ("significance", "answer") and not comparable(view)):
                yield Refusal(section, entry, "compares no models with different runs")
            if kind in WITHOUT_BASELINE and view.rows and not view.trained:
                yield Refusal(section, entry, "no model that it shows passes")
            if kind == "geometry":
                places = [(row, at, stage) for row in view.rows for stage in view.stages for at in view.stages[stage]]
                trained = Counter((row, at) for row, at, stage in places if view.runs(row, stage, at))
                if any(count > 1 for (row, _), count in trained.items() if words.kind(row) != "tfidf"):
                    yield Refusal(section, entry, "a line is of one stage")

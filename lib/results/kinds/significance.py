"""Which differences in F1 test documents show, with intervals and Holm's correction."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from lib.core.settings import check
from lib.evaluation.statistics import Paired, PairedSpans, holm, mcnemar_test, smallest_difference
from lib.results.predictions import interval_notes, paired_predictions, scores_of, shared_starts, without_copies
from lib.results.quantities import F1_IN_WORDS, with_datasets
from lib.results.scope import Scope
from lib.results.settings import PoolingSettings, TableSettings, Topic
from lib.results.table import SMALL_P, Column, Table, interval_columns, number
from lib.results.variants import EQUAL_DECIMALS

RUNS = ["dataset", "runs"]
"""Columns with the two runs of a comparison, the same for both directions."""
VARIANCES = ["of_seeds", "of_documents", "of_documents_given_models"]
"""Parts of the variance of a difference, as `lib.evaluation.statistics.Estimate` has them."""


class ComparisonSettings(PoolingSettings):
    """Base of the settings of what compares pairs of models, or each with reference and baseline."""

    needs_predictions: ClassVar[bool] = True
    takes_sets: ClassVar[bool] = True
    has_intervals: ClassVar[bool] = True
    compares_with: ClassVar[tuple[Literal["reference", "baseline"], ...]] = ("reference", "baseline")
    needs_another: ClassVar[bool] = True

    stage: str
    """Stage whose predictions are compared."""
    pairs: list[Annotated[tuple[str, str], Field(strict=False)]] | None = Field(None, min_length=1)
    """The comparisons, each a model and the one to compare it with, instead of reference and baseline; `models` follows
    from them. Choose them before you see the scores: each one more makes the correction stricter."""
    confidence: float = Field(0.95, gt=0.5, lt=1)
    """Confidence of the intervals; tests have the level 1 - confidence."""

    @classmethod
    def prepared(cls, values: Any) -> Any:
        """Show the models of the pairs."""
        pairs = values.get("pairs") if isinstance(values, dict) else None
        if not isinstance(pairs, list) or values.get("models") is not None:
            return values
        names = (name for pair in pairs if isinstance(pair, list | tuple) for name in pair if isinstance(name, str))
        return values | {"models": list(dict.fromkeys(names))}

    def compared(self) -> Iterator[tuple[str, Sequence[str], Sequence[str]]]:
        """See the base."""
        yield from (("pairs", [model], [other]) for model, other in self.pairs or ())

    @check
    def _pairs_are_of_models(self) -> Iterator[str]:
        for model, other in self.pairs or ():
            if model == other:
                yield f"pairs: {model} is compared with itself. Name another model"
        if missing := {name for pair in self.pairs or () for name in pair} - {*(self.models or ())}:
            yield f"models: lacks {', '.join(sorted(missing))} of the pairs. Leave `models` out"


def compared(settings: ComparisonSettings, scope: Scope) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the comparisons on all datasets, with p corrected over all of them; and the runs compared.

    A pair of rows with the same runs on a dataset is left out there. Two pairs with the same runs are one comparison,
    which the correction counts once; see `distinct`.

    Raises:
        DataError: a run is missing, has no predictions or other test documents.
    """
    pairs = _pairs(settings, scope)
    grid = scope.grid(settings.stage, models=list(dict.fromkeys(model for pair in pairs for model in pair)))
    comparisons = []
    for dataset in scope.stages[settings.stage]:
        owners = {row: scope.owner(settings.stage, row, dataset) for row in dict.fromkeys(grid["row"])}
        there = [(one, other) for one, other in pairs if owners[one] and owners[other] and owners[one] != owners[other]]
        if there:
            frame = _compared(paired_predictions(grid[grid["dataset"] == dataset]), there, dataset, settings.confidence)
            runs = [" ".join(sorted([str(owners[one]), str(owners[other])])) for one, other in there]
            comparisons.append(frame.assign(runs=runs))
    frame = pd.concat(comparisons, ignore_index=True)
    of_runs = frame.set_index(RUNS).index
    frame["holm_p"] = pd.Series(holm(distinct(frame)["p"]), distinct(frame).set_index(RUNS).index)[of_runs].to_numpy()
    frame["result"] = _results(frame, 1 - settings.confidence, shared_starts(without_copies(grid)))
    return frame, grid


def distinct(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of different runs: of several rows with the same two runs, the first one."""
    return comparisons.drop_duplicates(RUNS)


def _pairs(settings: ComparisonSettings, scope: Scope) -> list[tuple[str, str]]:
    """Return the pairs of rows that are compared, each once: those named, or each row with reference and baseline."""
    if settings.pairs:
        return list(dict.fromkeys((scope.row(model), scope.row(other)) for model, other in settings.pairs))
    passing = scope.owners[settings.stage]
    return [
        (model, other)
        for model in scope.models
        for other in dict.fromkeys([scope.reference, scope.baseline])
        if other and other in passing and other != model and not (model == scope.baseline and other in scope.models)
    ]


def _compared(paired: Paired, pairs: Sequence[tuple[str, str]], dataset: str, confidence: float) -> pd.DataFrame:
    """Return one row per pair: difference, interval, tests, and the two parts of its variance."""
    right = None if isinstance(paired, PairedSpans) else paired.right()
    rows = []
    for model, other in pairs:
        ours, theirs = paired.models.index(model), paired.models.index(other)
        difference = paired.difference(ours, theirs)
        low, high = difference.difference_interval(confidence)
        seeds = paired.repetitions(ours, theirs)
        rows.append(
            {
                "dataset": dataset,
                "model": model,
                "against": other,
                "f1_difference": 100 * difference.mean,
                "f1_difference_sd": 100 * pd.Series(difference.values).std(),
                "low": 100 * low,
                "high": 100 * high,
                "p": difference.p_value(),
                "mcnemar_p": float("nan") if right is None else mcnemar_test(right[seeds, ours], right[seeds, theirs]),
                "of_extremes": difference.of_extremes(1 - confidence),
                "metric": paired.metric,
                **{name: getattr(difference, name) for name in (*VARIANCES, "seeds", "documents")},
            }
        )
    return pd.DataFrame(rows)


def _results(frame: pd.DataFrame, level: float, shared: set[tuple[str, str]]) -> pd.Series:
    """Return the outcome of the corrected test in words, marked where seeds are no independent repetitions."""
    words = pd.Series(np.where(frame["f1_difference"] > 0, "better", "worse"), frame.index)
    sides = [[*zip(frame["dataset"], frame[side], strict=True)] for side in ("model", "against")]
    is_shared = [not shared.isdisjoint(pair) for pair in zip(*sides, strict=True)]
    words += np.select([frame["seeds"] == 1, is_shared], [" (one seed)", " (shared start)"], "")
    return words.where(frame["holm_p"] <= level, "no difference shown")


POWER = 0.8
"""Power for which the note gives the smallest difference that a test set can show."""


class SignificanceTable(ComparisonSettings, TableSettings):
    """Pairs of models, or each model with reference and baseline: difference in F1 on test, interval, tests, result."""

    about: ClassVar[Topic] = "differences"

    kind: Literal["significance"]

    def make(self, scope: Scope) -> Table:
        """Return for each dataset and pair of models: F1 difference in points, interval, tests, result.

        Interval and p are of seeds and documents together (`lib.evaluation.statistics.Estimate`), p corrected by Holm's
        method over all rows. A model is `better` or `worse` if the corrected p is at most the level. With one seed this
        holds for the trained models as they are, and if seeds of either model share a start, for this start; the result
        says so. McNemar's exact test of the documents that the
        given models get right is shown, too, and decides nothing; spans, which are rarely right as a whole, have none.
        Reference and baseline are compared once. The note says how small a difference each test set can show.

        Raises:
            DataError: see `compared`.
        """
        frame, grid = compared(self, scope)
        powers = [_power(dataset, rows, self) for dataset, rows in distinct(frame).groupby("dataset", sort=False)]
        columns = {
            "f1_difference": Column("F1 difference [points]", 2),
            **interval_columns(self.confidence),
            "p": Column("p", 4),
            "holm_p": Column("Holm p", 4),
            "mcnemar_p": Column("McNemar p of the given models", 4),
        }
        order = ["dataset", "model", "against", "f1_difference", "f1_difference_sd", *list(columns)[1:], "result"]
        shown = frame[order].dropna(axis="columns", how="all")
        said = f"Smallest true difference that one test without correction shows with a chance of {100 * POWER:.0f} %"
        shows = f"{said}, by the median variance of the comparisons: {'; '.join(powers)}."
        return Table(shown, columns, " ".join([*_note(self, frame), *interval_notes(grid, self.confidence), shows]))


def _power(dataset: str, compared: pd.DataFrame, settings: SignificanceTable) -> str:
    """Return in words how small a difference the test documents and seeds of a dataset can show."""
    shown, documents, most = [], compared["documents"].iloc[0], compared["seeds"].max()
    for other, rows in compared.groupby("against", sort=False):
        variances = rows[VARIANCES].median()
        given = {"seeds": rows["seeds"].max(), "documents": documents, "of_extremes": rows["of_extremes"].median()}
        smallest = smallest_difference(**variances, **given, level=1 - settings.confidence, power=POWER)
        size = "none, however large," if smallest is None else f"{100 * smallest:.1f} points"
        if not variances.any():  # as of models that predict the same
            size = "unknown, since it is 0,"
        shown.append(f"{size} against {other}")
    seeds = "one seed" if most == 1 else f"{most} seeds"
    return f"{dataset}, {documents:,} documents, {seeds}: {', '.join(shown)}"


def _note(settings: SignificanceTable, frame: pd.DataFrame) -> Iterator[str]:
    """Yield the sentences that explain the numbers."""
    yield f"F1 difference: {_score(frame)} on test minus that of the model"
    yield "under `against`. p: of no difference, by the same variance as the interval."
    number = len(distinct(frame))
    yield f"Holm p: corrected for the {number} comparison{'s' * (number > 1)} of this table. {SMALL_P}"
    yield f"Better or worse: Holm p is at most {1 - settings.confidence:.4g}."
    if frame["mcnemar_p"].notna().any():
        yield "McNemar p: exact test of which documents the given models get right; it knows nothing of other seeds,"
        yield "and decides nothing here."


def _score(compared: pd.DataFrame) -> str:
    """Return the name of the F1; where datasets have different ones, each with its datasets."""
    return with_datasets(compared.groupby("dataset", sort=False)["metric"].first().to_dict(), F1_IN_WORDS, " and ")


class AnswerTable(ComparisonSettings, TableSettings):
    """The result in a sentence per dataset, above a row with the models that are shown to be better or worse."""

    kind: Literal["answer"]

    def make(self, scope: Scope) -> Table:
        """Return for each dataset the highest F1 of those compared, and the comparisons of `significance` in words.

        The headlines say the same numbers in a sentence per dataset.

        Raises:
            DataError: see `compared`.
        """
        comparisons, grid = compared(self, scope)
        rows, sentences = [], []
        for dataset in scope.stages[self.stage]:
            pairs = comparisons[comparisons["dataset"] == dataset]
            if (here := grid[grid["dataset"] == dataset]).empty:
                continue  # the models are not made for the dataset
            scores = scores_of(paired_predictions(here), self.confidence)
            place = f" of {dataset}" if len(scope.stages[self.stage]) > 1 else ""
            sentences += [" ".join(_sentence(place, pairs, scores, self.confidence, len(distinct(comparisons))))]
            mean = scores["score"].round(EQUAL_DECIMALS)
            significant = pairs["holm_p"] <= 1 - self.confidence
            rows.append(
                {
                    "dataset": dataset,
                    "highest": ", ".join(mean.index[mean == mean.max()]),
                    **scores.loc[mean.idxmax()].rename({"score": "f1"}),
                    "shown_better": _in_words(pairs, significant & (pairs["f1_difference"] > 0), "than"),
                    "shown_worse": _in_words(pairs, significant & (pairs["f1_difference"] < 0), "than"),
                    "no_significant_difference": _in_words(pairs, ~significant, "from"),
                }
            )
        columns = {"f1": Column(scope.quantity("f1", self.stage).label, 2), **interval_columns(self.confidence)}
        note = " ".join([*_answer_note(comparisons), *interval_notes(grid, self.confidence)])
        return Table(pd.DataFrame(rows), columns, note, headlines=[*filter(None, sentences)])


def _sentence(place: str, pairs: pd.DataFrame, scores: pd.DataFrame, confidence: float, compared: int) -> Iterator[str]:
    """Yield the result on a dataset: the highest F1 against the next one that it is compared with, if there is any.

    Args:
        place: words that name the dataset, where there are several.
        pairs: the comparisons on it.
        scores: of all models there.
        confidence: of the intervals.
        compared: how many comparisons p is corrected for.
    """
    f1 = scores["score"]
    best = f1.idxmax()
    of_best = pairs[(pairs["model"] == best) | (pairs["against"] == best)]
    if of_best.empty:  # as of two models with the same runs
        return
    others = of_best["model"].where(of_best["model"] != best, of_best["against"])
    other, pair = others[others.map(f1).idxmax()], of_best.loc[others.map(f1).idxmax()]
    sign, seeds = (1 if pair["model"] == best else -1), int(pair["seeds"])
    size, *ends = (number(sign * pair[name], 1) for name in ("f1_difference", *["low", "high"][::sign]))
    highest = f", the highest of {len(f1)} models," if len(f1) > 2 else ""
    yield f"On {pair['documents']:,} test texts{place} with {seeds} seed{'s' * (seeds > 1)},"
    yield f"{best} has {f1[best]:.1f} % {_score(pairs)}{highest} and {other} {f1[other]:.1f} %;"
    interval = f"{100 * confidence:g} % interval over documents{' and seeds' * (seeds > 1)}"
    yield f"the difference of {size} points ({interval}: {' to '.join(ends)})"
    # The result is `better` or `worse`; with one seed, or one start, it says so in brackets.
    significant = f"is significant {pair['result'].partition(' ')[2]}".strip()
    verdict = significant if pair["holm_p"] <= 1 - confidence else "may be chance"
    yield f"{verdict} after correction for {compared} comparisons." if compared > 1 else f"{verdict}."


def _in_words(pairs: pd.DataFrame, chosen: pd.Series, preposition: str) -> str:
    """Return the models of the chosen pairs, each with the one compared with (`than sdpa`); `all 9` if all."""
    found = []
    for against, group in pairs.groupby("against", sort=False):
        models = group.loc[chosen[group.index], "model"]
        named = f"all {len(models)}" if 1 < len(models) == len(group) else ", ".join(models)
        if named:
            found.append(f"{named} ({preposition} {against})")
    return "; ".join(found) or "none"


def _answer_note(compared: pd.DataFrame) -> Iterator[str]:
    seeds = " and seeds" if (compared["seeds"] > 1).any() else ""
    yield "Highest: of the compared models, and partly so by chance, which its interval leaves out."
    number = len(distinct(compared))
    yield f"Shown: by a paired test over the test documents{seeds}, after Holm's correction for"
    yield f"all {number} comparisons." if number > 1 else "the one comparison."
    yield "Models without a significant difference need not be equal: the table of kind `significance` has each"
    yield "difference with its interval."

"""The study that is advised, as a file that stands alone: TF-IDF, encoders that do not train, and one that does."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from lib.advice.encoders import PublishedEncoder
from lib.advice.preparing import OwnTexts
from lib.advice.question import Question
from lib.core.errors import MOST_OF_VALUE, ConfigError, cut
from lib.core.files import mapping_text, read_value
from lib.core.weights import EncoderSettings
from lib.study.configuration import load_study

TEXTS = "texts"
"""Name of the own texts in a study."""

TEMPLATE = Path(__file__).with_name("study.yaml")
"""The studies of texts with labels and of texts without."""

SEEDS = 3
"""Seeds of a study that has time."""

FEWEST_TOKENS, FEWEST_DOCUMENTS = 64, 100
"""Tokens that documents are cut to, and training documents, at least, for the sake of a budget."""


@dataclass(frozen=True)
class StudySize:
    """What decides how long a study takes."""

    limit: int
    """Tokens that documents are cut to."""
    documents: int
    """Documents for training."""
    seeds: int = SEEDS
    trained: bool = True
    """Whether an encoder is fine-tuned."""
    frozen: bool = True
    """Whether encoders that do not train are in it."""


def affordable(whole: StudySize, seconds: Callable[[StudySize], float], minutes: float, *, labelled: bool) -> StudySize:
    """Return the first size that fits into a budget: seeds are given up first, then length, then documents.

    If no training fits, the study has only rows that need none.

    Args:
        whole: the study without a budget.
        seconds: CPU seconds of a study of some size.
        minutes: the budget, in minutes of CPU time.
        labelled: whether the texts have labels; without, there are no rows without training.

    Raises:
        ConfigError: nothing fits.
    """
    documents, limits = _halves(whole.documents, FEWEST_DOCUMENTS), [*_halves(whole.limit, FEWEST_TOKENS)]
    trainings = product(documents, limits, range(whole.seeds, 0, -1))
    sizes = [replace(whole, documents=number, limit=limit, seeds=seeds) for number, limit, seeds in trainings]
    if labelled:
        quick = replace(whole, seeds=1, trained=False)
        sizes += [quick, replace(quick, frozen=False)]
    for size in sizes:
        if seconds(size) <= 60 * minutes:
            return size
    least = "TF-IDF alone" if labelled else "one seed on few short documents"
    said = f"--minutes {minutes:g}: the least study, {least}, takes {seconds(sizes[-1]) / 60:.1f} minutes of CPU time"
    raise ConfigError(f"{said}. Allow more; or take the table of the advice without the option, which needs no study.")


def _halves(number: int, least: int) -> Iterator[int]:
    """Yield a number, and its halves as long as these are large enough."""
    yield number
    while (number := number // 2) >= least:
        yield number


def advised_study(
    encoder: PublishedEncoder,
    readers: Mapping[str, EncoderSettings],
    question: Question,
    own: OwnTexts,
    size: StudySize,
    execution: Mapping[str, Any],
    precision: str,
    ngrams: Mapping[str, Any] | None,
) -> str:
    """Return the file of the study that fine-tunes a published encoder, or adapts it to texts without labels.

    Labelled documents longer than the encoder reads are read in segments, too, as one row more, which may have 3.1
    points more than their ends (studies/long_reviews); texts without labels are cut to its reach.

    Args:
        encoder: the encoder.
        readers: encoders that do not train, by name.
        question: question about the texts.
        own: the texts. Without labels, the encoder is only adapted to them.
        size: of the study.
        execution: settings of `execution`, `results` among them.
        precision: arithmetic of the forward pass.
        ngrams: settings of TF-IDF that differ from the defaults; None = it is left out.

    Raises:
        ConfigError: it does not load; that is a fault of the texts' options.
    """
    template = read_value(TEMPLATE.read_text(encoding="utf-8"), TEMPLATE.name)
    values = template["labelled" if own.labelled else "unlabelled"]
    experiment, report = values["experiment"], values["report"]
    values["execution"], report["title"] = dict(execution), title(question)
    (stage,) = experiment["stages"].values()
    stage["task"] |= {"kind": "multi_label_classification", "threshold": "one"} if own.set_sizes else {}
    stage["recipe"] = encoder.recipe(size.documents, labelled=own.labelled)
    source = {"source": "local", "local": {"files": {"train": list(question.texts)}}, **own.settings}
    rows: dict[str, dict[str, Any]] = {}
    if own.labelled:
        split = own.settings.get("split", {}) | {"documents": {"train": size.documents}}
        fewer = {"split": split} if size.documents < own.splits["train"] else {}
        experiment["datasets"][TEXTS] = source | fewer | {"max_tokens": size.limit}
        if ngrams is not None:
            rows["tfidf"] = {"kind": "tfidf", **ngrams}
        if size.frozen:
            rows |= {f"{name}-frozen": {"kind": "frozen", "encoders": [name]} for name in readers}
            experiment["encoders"] = {name: each.model_dump(exclude_unset=True) for name, each in readers.items()}
    else:
        cut_to = {"max_tokens": min(size.limit, encoder.reach)}
        parts = {"short": 0, "long": size.documents, "held_out": own.splits["held_out"]}
        experiment["corpora"][TEXTS] = source | {part: {"articles": n} | cut_to for part, n in parts.items()}
    if size.trained:
        experiment["published"] = {encoder.name: dict(encoder.place)}
        # With the architecture, the study plans without a network.
        rows[encoder.name] = {"architecture": dict(encoder.architecture)} if "repository" in encoder.place else {}
        if longer := own.labelled and size.limit > encoder.reach:
            segmented = {"kind": "hierarchical", "encoder": encoder.name, "segment": encoder.reach}
            rows[f"{encoder.name}-segments"] = segmented
    experiment["seeds"], experiment["precision"] = [*range(1, size.seeds + 1)], precision
    experiment["backbones"] = {name: each for name, each in rows.items() if each}
    experiment["models"] = {name: {"backbone": name} for name in rows}
    if size.trained and longer:
        experiment["models"][encoder.name]["max_tokens"] = encoder.reach
    if own.labelled:
        _compare(report, [*rows], encoder.name)
    try:
        load_study([("the advised study", values)])
    except ConfigError as error:
        raise ConfigError(f"the advised study does not load: {error}") from error
    return mapping_text(values, width=110)


def _compare(report: dict[str, Any], models: list[str], encoder: str) -> None:
    """Let the report compare the models that there are."""
    report["reference"] = encoder if encoder in models else models[-1]
    if encoder not in models:
        del report["analyses"]  # of the predictions of models that train
    if "tfidf" not in models:
        del report["baseline"]
    if len(models) < 2:
        for name in ("answer", "significance"):
            del report["tables"][name]
        report["opens_with"].remove("answer")
        del report["reference"]


def title(question: Question) -> str:
    """Return the title of the study's report, which names the file of the texts, or the first of several."""
    first, *others = question.texts
    name = " ".join(cut(Path(first).name, MOST_OF_VALUE).split())
    return f"Models on {name}" + (f" and {len(others)} more" if others else "")

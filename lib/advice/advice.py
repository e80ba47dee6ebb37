"""Advice on a user's own texts: scores without training, gain and cost of training, and the study of both."""

import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from lib.advice.answer import (
    budget_answer,
    facts,
    labels_answer,
    leak_answer,
    quick_answer,
    share,
    table,
    training_answer,
)
from lib.advice.columns import find_columns
from lib.advice.curve import learning_curves
from lib.advice.encoders import ENCODERS, SMALL, PublishedEncoder, published_encoder
from lib.advice.estimates import START_UP, Hardware, Row, Steps, grows, row, this_hardware
from lib.advice.leaks import find_leaks
from lib.advice.preparing import OwnTexts, own_texts
from lib.advice.question import LIMITS, Question
from lib.advice.quick import FOLDS, forecast, quick_rows
from lib.advice.studies import StudySize, advised_study, affordable
from lib.advice.texts import kept_of, language_of, lost, ngram_settings, token_lengths
from lib.advice.training_steps import StepsCase, Turns, measure_turns
from lib.backbones.settings import BackboneSettings
from lib.backbones.text_encoder import TextEncoder, is_static, open_encoder
from lib.core.errors import ConfigError, DownloadError, RunError
from lib.core.files import check_target, mapping_text
from lib.core.inputs import resolve_paths
from lib.core.weights import EncoderSettings, ForeignStart
from lib.preparing.labelled import SplitError
from lib.reading.downloads import require_hub
from lib.reading.hub_files import CONFIG, download_model, download_tokenizer
from lib.study.configuration import load_study, read_layers
from lib.study.recipe import Recipe
from lib.tasks.settings import TASKS
from lib.tokens.coverage import MOST_EMPTY
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import from_published, from_vocabulary, train_wordpiece
from lib.training.encoding import write_encoder
from lib.workflow.planning.paths import Paths
from lib.workflow.planning.plan import Plan

STATIC = ENCODERS["potion-8m"]
FETCHED = (SMALL.title, STATIC.title)
"""Encoders whose weights are fetched while somebody waits: below 100 MB."""

BEARABLE = 0.05
"""Share of the text that a limit may lose."""

LONG = 512
"""Tokens beyond which attention takes enough of the time for mechanisms to be compared."""

SEGMENT, SEGMENTS = 512, 2
"""Tokens that encoders without training read at once, and how many such segments of a document they read, at most."""

SCORED, CURVED = 0.65, 0.1
"""Shares of the time that rows without training and their learning curves may take; the rest is for steps of
trainings."""

OTHER_JOBS = 90.0
"""CPU seconds of jobs that neither train nor score."""

FOR_LEAKS = 0.2
"""Share of the time that scores of columns may take."""

BUSY = 0.1
"""Share of the cores that other programs may keep busy without a warning."""

MEASURED = (128, 512, 2048)
"""Tokens of the documents that are measured, as far as there are such long ones; shorter ones have little attention."""

ENGLISH = "en"

_LEFT = 4.0
"""Seconds that the answer takes after the measurement."""


def advise(question: Question, name: str = "config/texts.yaml", begun: float | None = None) -> tuple[str, str]:
    """Return the advice as Markdown, and the file that follows it as YAML.

    Args:
        question: question of the user.
        name: name of that file; it need not exist.
        begun: when the program was started, by `time.monotonic`; None = now.

    Raises:
        ProjectError: the texts or the study do not allow an answer.
    """
    end = (time.monotonic() if begun is None else begun) + question.seconds - _LEFT
    plan = Plan(load_study(read_layers([question.study])))
    hardware = this_hardware(plan.study.execution, question.device, plan.experiment.precision)
    files = resolve_paths(question.texts)
    check_target(Path(name), question.study, *filter(None, [question.vocabulary]), *files)
    columns = find_columns(files, question.column, question.label, question.dialect, labelled=question.labelled)
    by = None if question.by == "none" else question.by
    own = own_texts(files, column=columns.text, label=columns.label, dialect=columns.dialect, by=by)
    ngrams = ngram_settings(own.texts) if own.labelled else {}
    falls, skipped = find_leaks(files, columns, own, ngrams, FOR_LEAKS * (end - time.monotonic()), question.by)
    leak = next((name for name, fall in falls.items() if question.by or fall.leaks), None)
    if leak and not own.by:
        with suppress(SplitError):  # then the answer says that documents are drawn at random
            own = own_texts(files, column=columns.text, label=columns.label, dialect=columns.dialect, by=leak)
    language, spoken = language_of(own.texts)
    encoder, readers = _encoders(question, labelled=own.labelled, foreign=language != ENGLISH)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tokenizer, known, warnings = _tokenizer(question, encoder, plan, own.texts, folder)
        lengths = token_lengths(own.texts, TextTokenizer.load(tokenizer))
        limits = sorted(question.limits or LIMITS[: 1 + sum(limit < lengths.max() for limit in LIMITS)])
        limit = next((each for each in limits if lost(lengths, each)[0] <= BEARABLE), limits[-1])
        opened = {
            f"{each}-frozen": _opened(each, settings, plan.paths, question.device, folder / f"of-{each}")
            for each, settings in readers.items()
        }
        reading = {each: reader for each, reader in opened.items() if reader}
        quick = quick_rows(own, ngrams, reading, SCORED * (end - time.monotonic())) if own.labelled else None
        curves = learning_curves(quick, CURVED * question.seconds) if quick and not own.set_sizes else []
        models = {encoder.title: encoder.parameters()} if known or language == ENGLISH else {}
        if models and limit > LONG:
            models |= _mechanisms(plan, limit)
        task = TASKS.parse({"kind": "sequence_classification" if own.labelled else "masked_lm"})
        cases = {each: StepsCase(backbone, task, str(tokenizer), hardware) for each, backbone in models.items()}
        turns, used, busy = (
            _measured(cases, np.minimum(lengths, limit), end - time.monotonic()) if cases else ({}, 1.0, "")
        )

    def trained(size: StudySize) -> list[Row]:
        drawn = replace(own, splits={**own.splits, "train": size.documents})
        cut = np.minimum(lengths, size.limit)
        return _rows_of(encoder, turns[encoder.title], cut, drawn, hardware) if turns and size.trained else []

    def cpu_seconds(size: StudySize) -> float:
        if size.trained and not turns:
            return np.inf  # it was not measured
        trainings = sum(used * (each.seconds - START_UP) + START_UP for each in trained(size))
        scored = [each for each in quick.rows if each.name == "tfidf" or size.frozen] if quick else []
        reading_all = sum(START_UP + own.documents * each.cpu for each in scored)
        return OTHER_JOBS + size.seeds * trainings + reading_all

    whole = size = StudySize(limit, own.splits["train"])
    if question.minutes is not None:
        size = affordable(whole, cpu_seconds, question.minutes, labelled=own.labelled)
    rows = trained(size)
    if rows and not any(each.cost.fits for each in rows):
        said = f"{size.limit} tokens: {encoder.name} does not fit into {hardware.gibibytes:.1f} GiB"
        raise RunError(f"{said}. Name smaller --limits or --encoder.")
    recipe = Recipe.model_validate(encoder.recipe(own.splits["train"], labelled=own.labelled))
    cut = np.minimum(lengths, limit)
    compared = [row(each, turns[each], recipe, cut, own, hardware) for each in [*models][1:]]
    rows_here = {row.name.rpartition("-")[2] for row in quick.rows} if quick else set()
    gain = forecast(rows_here, language) if rows_here and not own.set_sizes else None
    parts = [quick_answer(quick)] if quick else []
    parts += [leak_answer(leak, falls, own.settings["split"] if own.by else None)] if leak else []
    parts += [labels_answer(curves[quick.best], own.splits["train"])] if quick and curves else []
    parts.append(training_answer(encoder, size, rows, gain, name))
    if question.minutes is not None:
        parts.append(budget_answer(question.minutes, cpu_seconds(size) / 60, whole, size))
    parts.append(table(quick, curves, rows, compared, gain, hardware))
    found = [*columns.notes, *own.notes, *skipped, *warnings]
    if missing := [row for row in opened if row not in reading]:
        said = f"The table lacks {', '.join(missing)}: the weights are not here (large ones are not fetched)"
        found.append(f"{said}. `--encoder FOLDER` names a folder that has them.")
    if own.labelled and quick is None:
        found.append(f"Nothing was scored, which takes two classes of {FOLDS} documents and a row that reads them.")
    unknown = "No past file has several labels, so no gain is forecast, nor that of labels." if own.set_sizes else ""
    found += [*_remarks(ngrams, language, spoken), unknown, busy]
    parts.append("\n".join(f"- {fact}" for fact in (*facts(own, lengths, limits), " ".join(filter(None, found)))))
    # A row that nothing else of the study needs is in it only if its weights are here.
    readers = {each: how for each, how in readers.items() if f"{each}-frozen" in reading or each == encoder.name}
    study = advised_study(
        encoder, readers, question, own, size, _execution(files[0], rows, hardware), hardware.precision, ngrams
    )
    return "\n\n".join([*parts, f"`{name}`:\n\n```yaml\n{study}```"]), study


def _encoders(
    question: Question, *, labelled: bool, foreign: bool
) -> tuple[PublishedEncoder, dict[str, EncoderSettings]]:
    """Return the encoder that trains, and by name all that read without training, none if texts have no labels.

    Raises:
        ConfigError: a folder holds no encoder, or two have the same name.
    """
    folders = [*(question.encoder or ())]
    static = [folder for folder in folders if is_static(Path(folder))]
    trainable: list[str | None] = [folder for folder in folders if folder not in static]
    found = [published_encoder(labelled=labelled, multilingual=foreign, folder=each) for each in trainable or [None]]
    readers = {_name(folder): EncoderSettings(folder=folder) for folder in static}
    if not foreign and not folders and find_spec("model2vec"):
        readers[STATIC.name] = EncoderSettings.model_validate(STATIC.reader)
    for each in found:
        most = {"segment": min(SEGMENT, each.reach), "max_tokens": SEGMENTS * min(SEGMENT, each.reach)}
        readers[each.name] = EncoderSettings.model_validate(each.reader | most)
    if len(readers) < len(folders):
        raise ConfigError(f"--encoder: two of {', '.join(folders)} have the same name. Rename a folder.")
    return found[0], readers if labelled else {}


def _at_hand(place: ForeignStart, kind: str, paths: Paths) -> Path | None:
    """Return a folder of `models` or `tokenizers`, fetched to where studies look for it; None = the hub gives none."""
    if place.folder is not None:
        return Path(place.folder)
    target = Path(paths.downloads(kind, str(place.repository), str(place.revision)))
    if not target.is_dir():
        if kind == "models" and place.repository not in FETCHED:
            return None
        try:
            require_hub(str(place.repository), CONFIG, revision=str(place.revision))
            fetch = download_model if kind == "models" else download_tokenizer
            fetch(str(place.repository), target, revision=str(place.revision))
        except DownloadError:
            return None
    return target


def _opened(name: str, settings: EncoderSettings, paths: Paths, device: str, folder: Path) -> TextEncoder | None:
    """Return an encoder that reads texts as in a study, by links in a new folder; None = the hub does not give it."""
    weights, tokenizer = (_at_hand(settings, kind, paths) for kind in ("models", "tokenizers"))
    if weights is None or tokenizer is None:
        return None
    write_encoder(name, settings, weights, tokenizer, folder)
    return open_encoder(folder, settings, device)


def _tokenizer(
    question: Question, encoder: PublishedEncoder, plan: Plan, texts: Sequence[str], folder: Path
) -> tuple[Path, bool, list[str]]:
    """Return the tokeniser that tokens are counted by, whether its vocabulary is the encoder's, and warnings.

    Raises:
        ConfigError: the tokeniser knows no token of many of the texts.
    """
    target = folder / "tokenizer"
    published = _at_hand(ForeignStart.model_validate(encoder.place), "tokenizers", plan.paths)
    if question.vocabulary is not None:
        from_vocabulary(question.vocabulary, target)
    elif published is not None:
        from_published(published, target)
    else:
        train_wordpiece(target, texts)
    backend = TextTokenizer.load(target)
    empty, warnings = kept_of(texts, backend)
    if empty > MOST_EMPTY:
        said = f"{question.vocabulary or encoder.title}: its tokeniser knows no token of {empty:.0%} of the texts."
        raise ConfigError(f"{said} Name the folder of a published encoder of their language with --encoder.")
    known = len(backend.backend) == encoder.architecture["vocab_size"]
    if not known:
        warnings = [f"Lengths are not in tokens of {encoder.title}, whose tokeniser is not here, so they may differ."]
    return target, known, warnings


def _mechanisms(plan: Plan, limit: int) -> dict[str, BackboneSettings]:
    """Return exact attention, and of each other kind of mechanism that reads so long texts the one that computes least.

    With more hashes, larger chunks or more features no mechanism is faster. A study without exact attention has none.
    """
    graph = plan.graph
    places = {model: stage for model, stage, _ in graph.places if graph.reads_tokens(model, stage, None)}
    backbones = {model: graph.backbone_at(model, stage, None) for model, stage in places.items()}
    able = {
        model: each for model, each in backbones.items() if each.held_mechanisms and (each.longest() or limit) >= limit
    }
    exact = [model for model, each in able.items() if grows(each) and each.exact_up_to() is None][:1]
    cheapest = {able[model].family: model for model in exact}
    for model in sorted(able, key=lambda model: able[model].products_per_token(limit, 0.0)) if exact else ():
        cheapest.setdefault(able[model].family, model)
    return {model: able[model] for model in cheapest.values()}


def _measured(cases: Mapping[str, StepsCase], lengths: np.ndarray, seconds: float) -> tuple[Turns, float, str]:
    """Return the costs of steps, the cores that they took, and a warning if other programs took some.

    Mechanisms are compared with the second case; the first is the encoder.
    """
    longest, process, cores = max(8, int(np.quantile(lengths, 0.95))), psutil.Process(), psutil.cpu_count() or 1
    psutil.cpu_percent()  # it counts from now on, and so does the next
    process.cpu_percent()
    measured = sorted({min(longest, length) for length in MEASURED})
    turns = measure_turns([*cases][:2][-1], cases, measured, seconds)
    used = process.cpu_percent() / 100
    others = psutil.cpu_percent() / 100 * cores - used
    busy = f"**The machine is busy:** other programs kept {others:.1f} of {cores} cores busy. Minutes hold for that."
    return turns, used, busy if others > BUSY * cores else ""


def _remarks(ngrams: dict[str, Any] | None, language: str, spoken: float) -> Iterator[str]:
    """Yield a sentence about the language, and one if TF-IDF does not count words."""
    yield f"Language: '{language}' in {share(spoken)} of the documents."
    if ngrams:
        written = mapping_text(ngrams, one_line=True)[1:-1]
        yield f"TF-IDF of words does not suit these texts. The study has `{written}`, so it counts characters."
    elif ngrams is None:
        yield "TF-IDF finds no n-gram to count, so the study leaves it out."


def _rows_of(
    encoder: PublishedEncoder, turns: Sequence[Steps], cut: np.ndarray, own: OwnTexts, hardware: Hardware
) -> list[Row]:
    """Return the rows of a published encoder: documents cut to its reach, and read in segments if they are longer."""
    recipe = Recipe.model_validate(encoder.recipe(own.splits["train"], labelled=own.labelled))
    rows = [row(encoder.name, turns, recipe, np.minimum(cut, encoder.reach), own, hardware)]
    if own.labelled and cut.max() > encoder.reach:
        segments = -(-cut // encoder.reach)
        pieces = np.repeat(-(-cut // segments), segments)
        name = f"{encoder.name}-segments"
        rows.append(row(name, turns, recipe, pieces, own, hardware, pieces=len(pieces) / len(cut)))
    return rows


def _execution(file: Path, rows: Sequence[Row], hardware: Hardware) -> dict[str, Any]:
    """Return the settings of `execution` that differ from the defaults; `rows` are those of the study."""
    cpu, reduced = hardware.device == "cpu", [row.cost.micro_batch_tokens for row in rows if row.cost.reduced]
    training = ({"device": "cpu"} if cpu else {}) | ({"micro_batch_tokens": min(reduced)} if reduced else {})
    found = {"results": f"results/{_name(file)}", "training": training, "job": {"gpu": 0} if cpu else {}}
    return {key: value for key, value in found.items() if value}


def _name(path: str | Path) -> str:
    """Return the name of a file or folder, without its suffixes, as a study can have it."""
    return re.sub("[^A-Za-z0-9_-]+", "-", Path(path).resolve().name.split(".")[0]).strip("-") or "texts"

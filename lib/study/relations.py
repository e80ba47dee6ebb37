"""Whether the models and stages of a study fit together, where all that it names is there (`lib.study.names`).

Each function yields sentences about one relation, each with the place of the setting at fault.
"""

import contextlib
from collections.abc import Iterator

from pydantic import ValidationError

from lib.core.search_space import variant_name
from lib.core.sections import sentences
from lib.core.weights import ForeignStart, WordVectorsStart
from lib.study.graph import Graph
from lib.study.recipe import obstacle_of_quantized
from lib.study.stages import SCRATCH, Work, problems_of_settings
from lib.tasks.parameters import TaskParameters

SEARCHED = {"variants": "and so a model of each", "tuning": "whose trials keep no model"}
"""Why a stage that searches leaves no model that others could take over, by the section that says so."""


def underivable(graph: Graph) -> Iterator[str]:
    """Yield why a run cannot be derived: what it does, by which backbone and tokeniser, and from which run."""
    for relation in (_mechanisms_fit, _deviations_fit, _tokenizers_are_told, _parents_are_told):
        yield from relation(graph)


def misfits(graph: Graph) -> Iterator[str]:
    """Yield what does not fit together in an experiment whose runs can be derived."""
    for relation in (
        _searches_leave_no_model,
        _best_settings_fit,
        _labels_fit,
        _pairs_fit,
        _teachers_fit,
        _imitated_models_fit,
        _backbones_can_do_their_tasks,
        _heads_are_trained,
        _weights_are_left,
        _weights_can_be_handed_over,
        _word_vectors_fit,
        _blocks_exist,
        _trials_train,
        _quantised_backbones_train_adapters,
        _adapters_have_a_place,
        _lengths_are_in_reach,
        _texts_are_cut_as_said,
        _sentinels_suffice,
    ):
        yield from relation(graph)


# Runs can be derived


def _mechanisms_fit(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        try:
            graph.backbone_at(model, stage, entry)
        except ValidationError as error:
            for problem in error.errors():
                yield f"models.{model}: {problem['msg']}"


def _deviations_fit(graph: Graph) -> Iterator[str]:
    for name, model in graph.experiment.models.items():
        for stage, deviation in model.deviations.items():
            place, section = f"models.{name}.deviations.{stage}", graph.experiment.stages[stage]
            for work in section.data.values():
                try:
                    own = deviation.of(work)
                except ValidationError as error:
                    yield from (f"{'.'.join([place, *key])}: {sentence}" for key, sentence in sentences(error))
                    continue
                for settings in section.tried():
                    for setting, sentence in problems_of_settings(own, settings):
                        yield f"{place}.{setting}: {sentence} (in {variant_name(settings)})"


def _tokenizers_are_told(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for model, stage in graph.passages:
        if experiment.models[model].tokenizer or len(graph.shared_tokenizers) == 1:
            continue
        reading = [entry for entry in graph.entries(model, stage) if _reads_tokens(graph, model, stage, entry)]
        if missing := [entry for entry in reading if graph.corpus(entry).tokenizer is None]:
            known = ", ".join(experiment.tokenizers) or "none; add an entry"
            silent = ", ".join(missing)
            yield f"models.{model}.tokenizer: missing, and {silent} names none either. Name one of: {known}"


def _parents_are_told(graph: Graph) -> Iterator[str]:
    for name, stage, entry in graph.places:
        model, parent = graph.experiment.models[name], graph.parent_stage(name, stage)
        start = graph.experiment.stages[stage].start
        if parent is None:
            if start and model.start is None and _reads_tokens(graph, name, stage, entry):
                yield (
                    f"models.{name}: skips {start}, from which {stage} starts. Leave it in, or give "
                    f"the model a start: a folder, a repository, or '{SCRATCH}'"
                )
            continue
        before = graph.parent_dataset(stage, parent, entry)
        if before is None:
            known = ", ".join(graph.experiment.stages[parent].data)
            yield (
                f"stages.{stage}.data.{entry}: models start from {parent}, which has several entries and none "
                f"for {entry}: {known}. Name one of them as its start, or add it to {parent}"
            )
        elif not graph.passes(name, parent, before):
            yield (
                f"models.{name}.datasets: {stage} on {entry} starts from {parent} on {before}, which is left out. "
                f"Name {before}, too, or let {name} skip {parent}"
            )


def _reads_tokens(graph: Graph, model: str, stage: str, entry: str) -> bool:
    """Whether a model reads tokens at a stage, whatever mechanism it has."""
    return "states" in graph.experiment.backbones[graph.names_at(model, stage, entry)[0]].abilities


# Searches


def _searches_leave_no_model(graph: Graph) -> Iterator[str]:
    stages = graph.experiment.stages
    for name, stage in stages.items():
        if stage.start is not None and (search := stages[stage.start].search):
            yield (
                f"stages.{name}.start: {stage.start} has {search}, {SEARCHED[search]}. Start from the stage before it; "
                f"settings_from: {stage.start} takes the best settings"
            )


def _best_settings_fit(graph: Graph) -> Iterator[str]:
    for name, stage in graph.experiment.stages.items():
        source, place = stage.settings_from, f"stages.{name}.settings_from"
        if source is None:
            continue
        if stage.search:
            yield f"{place}: {name} has {stage.search} itself. Leave one of them out"
        if name in _needed(graph, source):
            yield f"{place}: {source} itself needs {name}, a circle. Let {source} start from another stage"
        passing = ", ".join(model for model, passed in graph.passages if passed == source) or "no model"
        taking = [model for model, passed, entry in graph.places if passed == name and graph.trains(model, name, entry)]
        if lacking := [model for model in dict.fromkeys(taking) if graph.searcher(model, name) is None]:
            yield (
                f"{place}: {source} is passed by {passing}. The best settings are those of a model's own search, or of "
                f"the only one, so {', '.join(lacking)} would take none. Let stages.{source}.models name one model, or "
                "these, too"
            )
        yield from _problems_of_taking(graph, name, source)


def _problems_of_taking(graph: Graph, stage: str, source: str) -> Iterator[str]:
    """Yield why the best settings of `source` cannot be laid over those of `stage`."""
    place, searching = f"stages.{stage}.settings_from", graph.experiment.stages[source]
    found: dict[tuple[str, str], None] = {}
    for entry, work in graph.experiment.stages[stage].data.items():
        searchers = {graph.searcher(model, stage) for model, *on in graph.places if on == [stage, entry]} - {None}
        if entry not in searching.data:
            yield f"{place}: {source} does not search on {entry}. Add it to the data of {source}"
        elif lacking := sorted(model for model in searchers if model and not graph.passes(model, source, entry)):
            yield f"{place}: at {source}, {', '.join(lacking)} is not made for {entry} (its `datasets`). Add it there"
        elif searching.search == "variants":
            task = searching.data[entry].task
            if not task.labelled or task.label_per != "document" or task.numbers:
                yield f"{place}: the best has the highest macro-F1, which {task.kind}, the task of {source}, lacks"
        for settings in searching.tried() if work.recipe is not None else ():
            found |= dict.fromkeys(problems_of_settings(work, settings))
    for key, sentence in found:
        yield f"{place}: the best of {source} may not fit here: {key}: {sentence}"


def _needed(graph: Graph, stage: str) -> set[str]:
    """Return the stages whose runs those of `stage` need, directly or not."""
    waiting, found = [stage], set[str]()
    while waiting:
        section = graph.experiment.stages[waiting.pop()]
        for following in (section.start, section.settings_from):
            if following is not None and following not in found:
                found.add(following)
                waiting.append(following)
    return found


def _trials_train(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        section = graph.experiment.stages[stage]
        if section.tuning and section.data[entry].recipe and not graph.trains(model, stage, entry):
            yield (
                f"stages.{stage}.models: {model} does not train on {entry}, so there is nothing to tune. Name "
                "those that do"
            )


# Tasks and labels


def _labels_fit(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for place, entry, work in _all_works(graph):
        task = work.task
        if not task.labelled:
            continue
        if entry in experiment.corpora:
            yield f"{place}: {task.kind} needs labels, but {entry} is a corpus without"
            continue
        dataset = experiment.datasets[entry]
        if dataset.label_per != task.label_per:
            yield (
                f"{place}: {task.kind} needs a label per {task.label_per}, but {entry} has one per "
                f"{dataset.label_per}. Set datasets.{entry}.label_per: {task.label_per} if its labels are such, or "
                "give the stage another task or dataset"
            )
        if task.numbers != (dataset.label_range is not None):
            needed, found = ("numbers", "classes") if task.numbers else ("classes", "numbers")
            yield (
                f"{place}: {task.kind} needs labels that are {needed}, but those of {entry} are {found}. "
                f"{'Give its label_range' if task.numbers else 'Name the task regression'}, or give the stage another "
                "task or dataset"
            )
        elif not dataset.split.test_labels and "test" in task.splits and not task.unlabelled_test:
            yield (
                f"{place}: {task.kind} scores test documents, but datasets.{entry}.split.test_labels is false. Give "
                "the stage another task or dataset"
            )
        for problem in () if dataset.label_range is not None else task.problems_of_labels(dataset.labels):
            yield f"{place}.task.{problem}"


def _pairs_fit(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for place, entry, work in _all_works(graph):
        if entry in experiment.datasets and (texts := experiment.datasets[entry].texts) not in work.task.texts:
            taken = " or ".join(_TEXTS[each] for each in work.task.texts)
            yield (
                f"{place}: {work.task.kind} reads {taken}, but the documents of {entry} are {_TEXTS[texts]} "
                f"(datasets.{entry}.text_pair and pairs). Change these, or give the stage another task"
            )
    for model, stage, entry in graph.places:
        if entry not in experiment.datasets or experiment.datasets[entry].texts != "together":
            continue
        backbone = graph.backbone_at(model, stage, entry)
        if not backbone.takes_pairs:
            yield (
                f"models.{model}: its backbone of kind {backbone.kind} cannot read the pairs of {entry}. Let it skip "
                "the stage, or choose another backbone"
            )
        elif graph.reads_tokens(model, stage, entry):
            tokenizer = graph.tokenizer_of(model, entry)
            if not experiment.tokenizers[tokenizer].enclose:
                yield (
                    f"tokenizers.{tokenizer}.enclose: false puts nothing between the two texts of {entry}. Set it to "
                    f"true, or datasets.{entry}.pairs to separately"
                )


_TEXTS = {"single": "single texts", "together": "pairs read together", "separately": "pairs read separately"}
"""What documents are, in words."""


def _teachers_fit(graph: Graph) -> Iterator[str]:
    for model, stage in graph.passages:
        for entry, work in graph.works(model, stage).items():
            teacher = work.task.taught_by()
            if teacher is not None and (problem := _problem_of_teacher(graph, teacher, stage, entry, work.task.head)):
                yield f"models.{model}: at {stage} on {entry} its teacher is {problem}"


def _problem_of_teacher(graph: Graph, teacher: str, stage: str, entry: str, head: str | None) -> str | None:
    """Return why a model cannot teach others at a stage, as the end of a sentence; None = it can."""
    if teacher not in graph.experiment.models:
        return f"'{teacher}', which is no model. Known: {', '.join(graph.experiment.models)}"
    if not graph.passes(teacher, stage, entry):
        return f"{teacher}, which does not pass {stage} there. Name one that does"
    if search := graph.experiment.stages[stage].search:
        return f"{teacher}, but {stage} has {search}, and no one model of it. Leave one of them out"
    work = graph.work(teacher, stage, entry)
    if not graph.trains(teacher, stage, entry) or (work.task.head or work.task.kind) != head or work.task.taught_by():
        return f"{teacher}, which trains no {head} by labels alone there. Name a model that does"
    if lacking := work.lack_of_model:
        return f"{teacher}, where {stage} {lacking}. Change that"
    return None


def _imitated_models_fit(graph: Graph) -> Iterator[str]:
    for place, _, work in _all_works(graph):
        for field in ("teacher_backbone", "teacher_weights"):
            if work.task.imitates() is not None and getattr(work.task, field) is not None:
                yield f"{place}.task.{field}: follows from the teacher. Leave it out"
    for name, section in graph.experiment.stages.items():
        source = section.settings_from or (name if section.tuning else None)
        if source and any("task.teacher" in settings for settings in graph.experiment.stages[source].tried()):
            yield f"stages.{source}: searches task.teacher, but {name} needs one teacher for all trials. Name one"
    for model, stage, entry in graph.places:
        if graph.trains(model, stage, entry):
            for work in _searched(graph, model, stage, entry):
                if problem := _problem_of_imitated(graph, model, stage, entry, work.task):
                    yield f"models.{model}: at {stage} on {entry} its teacher is {problem}"


def _problem_of_imitated(graph: Graph, model: str, stage: str, entry: str, task: TaskParameters) -> str | None:
    """Return why a model cannot learn the states of its teacher, as the end of a sentence; None = it can, or has none.

    The teacher is meant as it is before the stage.
    """
    models, teacher = graph.experiment.models, task.imitates()
    if teacher is None:
        return None
    if teacher not in models:
        return f"'{teacher}', which is no model. Known: {', '.join(models)}"
    try:
        other, own = graph.backbone_before(teacher, stage, entry), graph.backbone_at(model, stage, entry)
    except ValidationError as error:
        return f"{teacher}, whose backbone is none before {stage}: {error.errors()[0]['msg']}"
    if not task.trains(other):
        return f"{teacher}, whose backbone of kind {other.kind} has no states to imitate. Name another model"
    weights, problem = _weights_before(graph, teacher, stage, entry)
    if problem:
        return f"{teacher}, which {problem}"
    if (own, weights) == (other, _weights_before(graph, model, stage, entry)[0]):
        what = "itself" if teacher == model else f"{teacher}, the same as itself,"
        return (
            f"{what} with the same attention, so there is nothing to learn. Let it skip {stage}, or change its "
            f"mechanism there (models.{model}.changes.{stage})"
        )
    if _differ(other.width(), own.width()):
        return f"{teacher}, whose states are {other.width()} wide and not {own.width()}. Name a model with as wide ones"
    if getattr(task, "layers", None) == "all" and _differ(other.blocks(), own.blocks()):
        return f"{teacher}, which has {other.blocks()} layers and not {own.blocks()}. Set layers: last, or name another"
    parent = graph.parent_stage(teacher, stage)
    before = parent and graph.parent_dataset(stage, parent, entry)
    reads, tokens = graph.tokenizer_of(teacher, before or entry), graph.max_tokens(model, entry)
    if reads != (named := graph.tokenizer_of(model, entry)):
        return f"{teacher}, which reads by the tokeniser {reads} and not by {named}. Let both have the same"
    if (reach := other.longest()) is not None and tokens > reach:
        return (
            f"{teacher}, which reads {reach} tokens at most, but {entry} has max_tokens = {tokens}. Lower it, or name "
            "a teacher that reads as many"
        )
    return None


def _differ(found: int | None, expected: int | None) -> bool:
    """Whether two sizes differ; one that is not known yet differs from none."""
    return None not in (found, expected) and found != expected


def _weights_before(graph: Graph, model: str, stage: str, entry: str) -> tuple[object, str | None]:
    """Return what tells the weights of a model before a stage from others, and why there are none, if so."""
    parent = graph.parent_stage(model, stage)
    if parent is None:
        start = graph.experiment.models[model].start
        problem = f"has drawn weights before {stage}. Name one that passes an earlier stage, or starts from a model"
        return start, None if isinstance(start, ForeignStart) else problem
    before = graph.parent_dataset(stage, parent, entry)
    if before is None or not graph.passes(model, parent, before):
        return None, f"has no run of {parent} for {entry}. Name one that has"
    if lacking := graph.work(model, parent, before).lack_of_model:
        return None, f"comes from {parent}, which {lacking}. Name another model"
    return (parent, before, graph.owner(model, parent, before)), None


def _backbones_can_do_their_tasks(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        work, backbone = graph.work(model, stage, entry), graph.backbone_at(model, stage, entry)
        trained, evaluated = work.task.trains(backbone), work.task.evaluates(backbone)
        if not trained and not evaluated:
            yield (
                f"models.{model}: its backbone {backbone.kind} cannot do {work.task.kind}, the task of {stage}. "
                f"Let it skip the stage, or choose another backbone"
            )
        elif not (work.recipe or work.task.predicts or evaluated):
            yield (
                f"stages.{stage}.data.{entry}: has no recipe, without which a backbone of kind {backbone.kind} "
                f"cannot do {work.task.kind}. Add one"
            )


# Weights


def _heads_are_trained(graph: Graph) -> Iterator[str]:
    for model, stage in graph.passages:
        parent = graph.parent_stage(model, stage)
        for entry, work in graph.works(model, stage).items():
            if work.recipe or not work.task.predicts:
                continue
            problem = None
            if parent is not None:
                headless = work.task.trains_on is None
                problem = None if headless else _missing_of_a_head(graph, model, stage, entry, parent)
            elif graph.reads_tokens(model, stage, entry) and not isinstance(
                graph.experiment.models[model].start, ForeignStart
            ):
                problem = f"{model} has drawn weights there. Add one, or let it start from a stage that trains"
            if problem:
                yield f"stages.{stage}.data.{entry}: has no recipe, so it needs a trained model, but {problem}"


def _missing_of_a_head(graph: Graph, model: str, stage: str, entry: str, parent: str) -> str | None:
    """Return what keeps the head of a model at `parent` from serving at `stage`, if anything does."""
    before = graph.parent_dataset(stage, parent, entry)
    assert before is not None  # it can be derived
    task, trained = graph.work(model, stage, entry).task, graph.work(model, parent, before).task
    if (trained.head or trained.kind) != (task.head or task.kind):
        return f"{parent} trains {trained.kind}. Add one, or start from a stage that trains {task.kind}"
    datasets = graph.experiment.datasets
    if task.labelled and {entry, before} <= datasets.keys():
        asked, given = (datasets[name].labels for name in (entry, before))
        if len(asked) != len(given):
            there = f"{parent} trains {len(given)} labels on {before}, not {len(asked)}"
            return f"{there}. Add one, or give both the same labels"
        if asked != given and set(asked) == set(given):
            return f"the labels of {before} are {given}, not {asked}. Name both in the same order"
    return None


def _weights_are_left(graph: Graph) -> Iterator[str]:
    for model, stage, entry, parent, before in _inheritances(graph):
        lacking = graph.work(model, parent, before).lack_of_model
        if lacking and graph.reads_tokens(model, stage, entry):
            yield (
                f"stages.{stage}.data.{entry}: {model} starts from {parent}, which {lacking}. Start from a "
                f"stage before it, or let {model} skip {parent}"
            )


def _weights_can_be_handed_over(graph: Graph) -> Iterator[str]:
    for model, stage, entry, parent, source in _inheritances(graph):
        taking, leaving = graph.backbone_at(model, stage, entry), graph.backbone_at(model, parent, source)
        places = [changes.data for changes in graph.experiment.models[model].changes.values()]
        where = f" on {entry}" if any(entry in data for data in places) else ""
        for obstacle in taking.obstacles(leaving):
            yield f"models.{model}: from {parent} to {stage}{where}, {obstacle}"
        before, after = graph.tokenizer_of(model, source), graph.tokenizer_of(model, entry)
        if before != after and graph.reads_tokens(model, stage, entry):
            yield (
                f"models.{model}: {stage} reads {entry} by the tokeniser {after}, but starts from {parent} on "
                f"{source}, which it read by {before}. Let both have the same"
            )


def _word_vectors_fit(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for name, backbone in experiment.backbones.items():
        if backbone.word_vectors is not None and backbone.folders():
            yield f"backbones.{name}.vectors_folder: follows from vectors. Leave it out"
    for model, stage, entry in graph.places:
        start = experiment.models[model].start
        if not isinstance(start, WordVectorsStart) or graph.parent_stage(model, stage):
            continue
        backbone, place = graph.backbone_at(model, stage, entry), f"models.{model}.start.word_vectors"
        if not backbone.starts_from_word_vectors:
            yield f"{place}: its backbone, of kind {backbone.kind}, starts from none. Leave it out"
            continue
        width, dimension = backbone.width(), experiment.word_vectors[start.word_vectors].dimension
        if width != dimension:
            yield (
                f"{place}: {start.word_vectors} has {dimension} dimensions, but the embeddings of the backbone "
                f"{graph.names_at(model, stage, entry)[0]} have {width}. Give both as many"
            )


def _inheritances(graph: Graph) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield every model with every stage and entry that it passes, and those from which its weights come there."""
    for model, stage, entry in graph.places:
        if parent := graph.parent_stage(model, stage):
            before = graph.parent_dataset(stage, parent, entry)
            assert before is not None  # it can be derived
            yield model, stage, entry, parent, before


# Training


def _blocks_exist(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        blocks = graph.backbone_at(model, stage, entry).blocks() or 0
        frozen = [work.recipe.freeze_layers for work in _searched(graph, model, stage, entry) if work.recipe]
        if max(frozen, default=0) > blocks and graph.trains(model, stage, entry):
            yield (
                f"stages.{stage}.data.{entry}.recipe.freeze_layers: {max(frozen)} is too many, since the "
                f"backbone {graph.names_at(model, stage, entry)[0]} has {blocks} blocks to freeze. Freeze fewer"
            )


def _quantised_backbones_train_adapters(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        obstacle = obstacle_of_quantized(graph.work(model, stage, entry).recipe)
        if obstacle and graph.backbone_at(model, stage, entry).quantized:
            backbone, _ = graph.names_at(model, stage, entry)
            yield f"stages.{stage}.data.{entry}: the backbone {backbone} {obstacle}"


def _adapters_have_a_place(graph: Graph) -> Iterator[str]:
    models: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for model, stage, entry in graph.places:
        layers = graph.backbone_at(model, stage, entry).linear_layers
        if layers is None or not graph.trains(model, stage, entry):
            continue
        backbone, _ = graph.names_at(model, stage, entry)
        for work in _searched(graph, model, stage, entry):
            if work.recipe and work.recipe.lora and (obstacle := work.recipe.lora.obstacle(layers)):
                models.setdefault((stage, entry, backbone, obstacle), {})[model] = None
    for (stage, entry, backbone, obstacle), names in models.items():
        listed = ", ".join(names)
        yield (
            f"stages.{stage}.data.{entry}.recipe.lora: the backbone {backbone} of {listed} {obstacle}. Leave it out, "
            f"or let {listed} skip the stage"
        )


def _lengths_are_in_reach(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        reach, tokens = graph.backbone_at(model, stage, entry).longest(), graph.max_tokens(model, entry)
        if reach is not None and tokens > reach:
            backbone, _ = graph.names_at(model, stage, entry)
            longer = entry if tokens == graph.corpus(entry).max_tokens else f"models.{model}"
            yield (
                f"backbones.{backbone}: reads {reach} tokens at most in {model}, but {longer} has max_tokens = "
                f"{tokens}. Lower it, raise max_position_embeddings, or choose other positions or another mechanism"
            )


def _texts_are_cut_as_said(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    reading = {
        (model, entry): None
        for model, stage, entry in graph.places
        if entry in experiment.datasets and graph.reads_tokens(model, stage, entry)
    }
    for name, settings in experiment.models.items():
        if settings.max_tokens is not None and name not in {model for model, _ in reading}:
            yield (
                f"models.{name}.max_tokens: {settings.max_tokens} does nothing, since {name} reads no labelled "
                "documents as tokens. Leave it out"
            )
    for model, entry in reading:
        dataset, tokenizer = experiment.datasets[entry], graph.tokenizer_of(model, entry)
        if dataset.label_per != "span":
            continue
        room = graph.max_tokens(model, entry) - 2
        if dataset.window_stride > room:
            yield (
                f"models.{model}.max_tokens: a window holds {room} tokens beside [CLS] and [SEP], but {entry} has "
                f"window_stride = {dataset.window_stride}, so some would be in none. Raise it, or lower the stride"
            )
        if (cut := experiment.tokenizers[tokenizer].cut) != "head":
            yield (
                f"tokenizers.{tokenizer}.cut: {cut} does nothing with the spans of {entry}, whose documents become "
                f"windows. Let {model} read by a tokeniser without it"
            )


def _sentinels_suffice(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        tokens = graph.max_tokens(model, entry)
        needed = max((work.task.sentinels(tokens) for work in _searched(graph, model, stage, entry)), default=0)
        if not needed:
            continue  # a study of baselines has no tokeniser at all
        name = graph.tokenizer_of(model, entry)
        tokenizer = graph.experiment.tokenizers[name]
        if tokenizer.algorithm == "published" and not tokenizer.sentinels:
            continue  # it may have some of its own, which only its files tell
        if tokenizer.sentinels < needed:
            yield (
                f"tokenizers.{name}.sentinels: {tokenizer.sentinels} are too few for {model} at {stage} on {entry}, "
                f"where a document of max_tokens = {tokens} takes {needed}. Raise it"
            )


def _all_works(graph: Graph) -> Iterator[tuple[str, str, Work]]:
    """Yield all that is done in stages, and by models otherwise: the place in the configuration, the entry."""
    for name, stage in graph.experiment.stages.items():
        for entry, work in stage.data.items():
            yield f"stages.{name}.data.{entry}", entry, work
    for model, passed in graph.passages:
        if passed in graph.experiment.models[model].deviations:
            for entry, work in graph.works(model, passed).items():
                yield f"models.{model}.deviations.{passed}", entry, work


def _searched(graph: Graph, model: str, stage: str, entry: str) -> Iterator[Work]:
    """Yield what a model may come to do at a stage: all that it searches, or takes from the search of another."""
    section = graph.experiment.stages[stage]
    source = graph.experiment.stages[section.settings_from] if section.settings_from else section
    for settings in source.tried():
        with contextlib.suppress(ValidationError):  # found by _best_settings_fit
            yield graph.work(model, stage, entry).with_settings(settings)

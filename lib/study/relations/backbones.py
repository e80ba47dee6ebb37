"""Check that backbones can do the tasks of their stages, at the lengths of the documents."""

from collections.abc import Iterator

from lib.study.graph import Graph
from lib.study.recipe import quantization_error
from lib.study.relations.works import searched


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


def _tasks_make_sense(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        name, backbone = graph.names_at(model, stage, entry)[0], graph.backbone_at(model, stage, entry)
        errors = [
            error for work in searched(graph, model, stage, entry) for error in work.task.backbone_errors(backbone)
        ]
        for error in dict.fromkeys(errors):
            yield f"stages.{stage}.data.{entry}.task.{error} ({model}, on {name})"


def _own_recipes_train(graph: Graph) -> Iterator[str]:
    """Check models' own recipes; that of a stage may be for others of its models."""
    for model, stage in graph.model_stages:
        change = graph.changed_work(model, stage)
        if change and change.recipe and not any(graph.trains(model, stage, each) for each in graph.works(model, stage)):
            yield (
                f"models.{model}.changes.{stage}.recipe: {model} does not train at {stage}, so a recipe changes "
                "nothing. Take it out"
            )


def _blocks_exist(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        blocks = graph.backbone_at(model, stage, entry).blocks() or 0
        frozen = [work.recipe.freeze_layers for work in searched(graph, model, stage, entry) if work.recipe]
        if max(frozen, default=0) > blocks and graph.trains(model, stage, entry):
            yield (
                f"stages.{stage}.data.{entry}.recipe.freeze_layers: {max(frozen)} is too many, since the "
                f"backbone {graph.names_at(model, stage, entry)[0]} has {blocks} blocks to freeze. Freeze fewer"
            )


def _what_freezes_is_frozen(graph: Graph) -> Iterator[str]:
    """Check the settings of each stage, not those that a search tries: some may freeze nothing."""
    for model, stage, entry in graph.places:
        recipe = graph.work(model, stage, entry).recipe
        if recipe and recipe.freezes and not recipe.frozen_epochs and graph.trains(model, stage, entry):
            yield (
                f"stages.{stage}.data.{entry}.recipe: freeze_layers and freeze_embeddings freeze nothing, since half "
                f"of epochs = {recipe.epochs}, rounded down, is 0. Set freeze_epochs, raise epochs, or leave "
                "them out"
            )


def _quantised_backbones_train_adapters(graph: Graph) -> Iterator[str]:
    for model, stage, entry in graph.places:
        reason = quantization_error(graph.work(model, stage, entry).recipe)
        if reason and graph.backbone_at(model, stage, entry).quantized:
            backbone, _ = graph.names_at(model, stage, entry)
            yield f"stages.{stage}.data.{entry}: the backbone {backbone} {reason}"


def _adapters_have_a_place(graph: Graph) -> Iterator[str]:
    models: dict[tuple[str, str, str, str], dict[str, None]] = {}
    for model, stage, entry in graph.places:
        layers = graph.backbone_at(model, stage, entry).linear_layers
        if layers is None or not graph.trains(model, stage, entry):
            continue
        backbone, _ = graph.names_at(model, stage, entry)
        for work in searched(graph, model, stage, entry):
            if work.recipe and work.recipe.lora and (reason := work.recipe.lora.error(layers)):
                models.setdefault((stage, entry, backbone, reason), {})[model] = None
    for (stage, entry, backbone, reason), names in models.items():
        listed = ", ".join(names)
        yield (
            f"stages.{stage}.data.{entry}.recipe.lora: the backbone {backbone} of {listed} {reason}. Leave it out, "
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


def _texts_are_cut_consistently(graph: Graph) -> Iterator[str]:
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
        passed = [graph.reads_tokens(*place) for place in graph.places if place[0] == name]
        if passed and not any(passed):
            for key in ("start", "tokenizer"):
                if getattr(settings, key) is not None:
                    yield f"models.{name}.{key}: does nothing, since {name} reads texts and no tokens. Leave it out"
    for model, entry in reading:
        dataset, tokenizer = experiment.datasets[entry], graph.tokenizer_of(model, entry)
        if dataset.label_per != "span":
            continue
        room = graph.max_tokens(model, entry) - 2
        if dataset.window_stride > room:
            yield (
                f"models.{model}.max_tokens: a window holds {room} tokens and [CLS] and [SEP], but {entry} has "
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
        needed = max((work.task.sentinels(tokens) for work in searched(graph, model, stage, entry)), default=0)
        if not needed:
            continue  # a study of baselines has no tokeniser at all
        name = graph.tokenizer_of(model, entry)
        tokenizer = graph.experiment.tokenizers[name]
        if tokenizer.algorithm == "published" and not tokenizer.sentinels:
            continue  # its files may have some
        if tokenizer.sentinels < needed:
            yield (
                f"tokenizers.{name}.sentinels: {tokenizer.sentinels} are too few for {model} at {stage} on {entry}, "
                f"where a document of max_tokens = {tokens} takes {needed}. Raise it"
            )


RELATIONS = (
    _backbones_can_do_their_tasks,
    _tasks_make_sense,
    _own_recipes_train,
    _blocks_exist,
    _what_freezes_is_frozen,
    _quantised_backbones_train_adapters,
    _adapters_have_a_place,
    _lengths_are_in_reach,
    _texts_are_cut_consistently,
    _sentinels_suffice,
)

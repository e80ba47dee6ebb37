"""The shipped studies, and what a study refuses: every problem is named."""

import json
import re

import pytest
from small_studies import DATASET, DELETE, RECIPE, SMALL, changed, study

from lib.core.errors import ConfigError
from lib.study.configuration import SHIPPED, load_study, merged, read_arguments, read_layers
from lib.study.recipe import Recipe

MECHANISMS = ["sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128"]
MECHANISMS += ["favor-m64", "favor-m128", "favor-m256", "favor-m512"]


@pytest.fixture(scope="module")
def shipped():
    """The shipped studies that have the rows of the grid."""
    return {name: load_study(read_layers([SHIPPED[f"{name}.yaml"]])) for name in ("config", "small", "demo")}


def test_shipped_studies_compare_the_same_rows(shipped):
    for name, made in shipped.items():
        experiment = made.experiment
        assert list(experiment.mechanisms) == MECHANISMS
        assert list(experiment.models) == ["tfidf", *MECHANISMS]
        assert list(experiment.datasets) == ["imdb", "hyperpartisan", "arxiv"]
        assert experiment.seeds == [420]
        tfidf = made.graph.backbone_at("tfidf", "finetune", "imdb")
        assert (tfidf.C, tfidf.class_weight) == (1.0, None), f"{name}: the penalty of the reproduced study"
    tfidf = load_study(read_layers([SHIPPED["published_small.yaml"]])).graph.backbone_at("tfidf", "finetune", "imdb")
    assert (tfidf.C, tfidf.class_weight) == ("validation", "validation")


def test_grid_has_three_stages_and_its_recipe(shipped):
    graph = shipped["config"].graph
    for name in MECHANISMS:
        assert graph.chain("finetune") == ["finetune", "tapt", "pretrain"]
        assert graph.stages_of(name) == ["pretrain", "tapt", "finetune"]
        assert graph.backbone_at(name, "tapt", "imdb").mechanism.name() == name
    assert graph.stages_of("tfidf") == ["finetune"]
    assert not graph.trains("tfidf", "finetune", "imdb")
    work = graph.experiment.stages["finetune"].data["imdb"]
    assert (work.recipe.epochs, work.recipe.min_lr_ratio, work.recipe.freeze_layers) == (8, 0.2, 2)
    assert (work.task.classifier_pooling, work.task.classifier_dropout) == ("mean", 0.2)
    assert work.keep == ["best"]


@pytest.mark.parametrize(("name", "source"), [("demo", "generated"), ("small", "local")])
def test_small_grids_download_nothing(shipped, name, source):
    experiment = shipped[name].experiment
    assert {corpus.source for corpus in [*experiment.corpora.values(), *experiment.datasets.values()]} == {source}
    assert shipped[name].execution.results == f"results/{name}"
    assert {tokenizer.source for tokenizer in shipped["demo"].experiment.tokenizers.values()} == {"trained"}


def test_shipped_studies_have_results_of_their_own():
    folders = {name: merged(read_layers([path]))["execution"]["results"] for name, path in SHIPPED.items()}
    assert folders["config.yaml"] == "results"
    # More rows of the same study, whose runs they share.
    for rows, of in (
        *((name, "config") for name in ("full", "search_each", "mechanisms")),
        *((name, "toy") for name in ("toy_beyond", "toy_mechanisms")),
        *((name, "demo") for name in ("demo_full", "demo_recurrent")),
        ("lra_files", "lra"),
        ("mechanisms_small", "published_small"),
    ):
        assert folders.pop(f"{rows}.yaml") == folders[f"{of}.yaml"]
    assert len(set(folders.values())) == len(folders), folders


ENCODER = {"kind": "encoder", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
GENERATED = SMALL["experiment"]["datasets"]["imdb"]
LORA, WORDPIECE, SDPA_START = "stages/pretrain/recipe/lora", "tokenizers/wordpiece", "models/sdpa/start"
F1, A = "report/tables/f1", "report/analyses/a"
SHA = "0" * 40
HUB = {"repository": "a/b", "revision": SHA, "files": {"train": ["x.csv"]}}
LEARNED = {"position_embedding_type": "learned", "max_position_embeddings": 64}

FIELDS = [
    ({"experimnt": {}}, "experimnt: unknown key"),
    ({"datasets/imdb/max_tokens": DELETE}, "experiment.datasets.imdb.max_tokens: missing"),
    ({"seeds": [1, 2, 1]}, r"experiment.seeds: .*\[1, 2, 1\]"),
    ({"stages/tapt/data/imdb": {"seeds": [1, 1]}}, r"imdb.seeds: .*\[1, 1\]"),
    # Kinds, and what they have
    ({"mechanisms/lsh-h2-c64/chunk_size": 32}, "mechanisms.lsh-h2-c64:.*lsh-h2-c32"),
    ({"mechanisms/favor-elu": {"kind": "favor", "phi": "elu", "nb_features": 64}}, "nb_features = 64.*'elu'"),
    ({"backbones/encoder/attention_dropout": 0.1}, "models.favor-m64: attention_dropout = 0.1"),
    # Adapters and checkpoints
    ({LORA: {}, "stages/pretrain/recipe/freeze_layers": 1}, "stages.pretrain.*freeze_layers.*lora"),
    ({"stages/tapt/recipe/keep": ["state"]}, "stages.tapt.recipe: keep = .*state"),
    # Where things come from
    ({SDPA_START: {"repository": "b/c", "revision": "main"}}, "models.sdpa.start: revision = 'main'"),
    ({"datasets/imdb/hub": HUB | {"revision": "main"}}, "datasets.imdb.hub: revision = 'main'.*unpinned: true"),
    ({"datasets/imdb/url": {"files": {"train": [{"url": "https://a.org/x.csv"}]}}}, "x.csv has no sha256"),
    # Documents and labels
    ({"datasets/imdb/labels": ["a", "a"]}, "datasets.imdb.labels.*'a'"),
    ({"datasets/imdb/split": {"validation": 0.5, "test": 0.5}}, "validation = 0.5 and test = 0.5"),
    ({"datasets/imdb/split": {"published": True}, "datasets/imdb/balance": True}, "imdb:.*split.published"),
]
"""A change by which one section is wrong by itself, and what its only problem says."""

KIND = "sequence_classification"
SPANS = {f"datasets/{name}/label_per": "span" for name in ("imdb", "arxiv")}
SPANS |= {"stages/finetune/task": {"kind": "span_detection"}, "models/tfidf": DELETE}
"""Changes by which the study looks for spans."""
AUGMENTATION = {"labels": ["yes"], "by": "synonyms", "synonyms": {"local": "wordnet"}}
TAUGHT = {"kind": "distillation", "teacher": "favor-m64"}
T5 = {"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
CORRUPTS = {"skip": ["tapt", "finetune"], "changes": {"pretrain": {"task": {"kind": "span_corruption"}}}}
OF_T5 = {"backbones/t5": {"kind": "encoder_decoder", "architecture": T5}, "models/t5": {"backbone": "t5"} | CORRUPTS}
GRU = {"backbones/gru": {"kind": "recurrent", "cell": "gru", "bidirectional": False}, "models/gru": {"backbone": "gru"}}
PROBE = {"start": "finetune", "task": {"kind": KIND}, "data": {"imdb": {}}}
PROBED = {"stages/probe": PROBE, "models/tfidf/skip": ["pretrain", "tapt", "probe"]}
MATCHING = {"kind": "label_matching", "phrases": ["bad", "good", "odd"]}
SDPA = SMALL["experiment"]["models"]["sdpa"]
CLASS_WEIGHTS = "stages/finetune/recipe/class_weights"
TUNED, CHANGES, IMDB = "stages/finetune/task", "models/sdpa/changes", "datasets/imdb"
FITS = [
    ({"execution/gpus_per_run": 9}, "stages.pretrain.recipe.batch_size: 9 processes .* 8"),
    ({"precision": "fp16", "execution/training": {"device": "cpu"}}, "experiment.precision: fp16"),
    # Stages
    ({"stages/pretrain/start": "finetune"}, "stages: pretrain needs finetune needs tapt needs pretrain"),
    ({"models/sdpa/skip": ["pretrain"]}, "models.sdpa: skips pretrain, .* tapt"),
    ({"stages/finetune/data/wikipedia": {"start": "imdb"}}, f"finetune.data.wikipedia: {KIND}"),
    ({"stages/finetune/recipe/freeze_layers": 5}, "finetune.recipe.freeze_layers: 5 .* 2 blocks"),
    ({"stages/pretrain/recipe/lora": {"merge": False}}, "stages.pretrain.recipe.lora.merge: false"),
    (PROBED | {"stages/probe": PROBE | {"start": "tapt"}}, "stages.probe.data.imdb: .*tapt trains masked_lm"),
    (
        PROBED
        | {
            "datasets/more": GENERATED | {"labels": ["yes", "no"]},
            "stages/probe": PROBE | {"data": {"more": {}}},
            "stages/finetune/data": {"imdb": {}},
        },
        "stages.probe.data.more: .*labels of imdb",
    ),
    # Models, backbones and tasks
    ({"tokenizers/other": {"source": "trained"}}, "models.sdpa.tokenizer: missing, and wikipedia"),
    ({CHANGES: {"tapt": {"mechanism": "lsh-h2-c64"}}}, "tapt.data.imdb: from pretrain to tapt, lsh-h2-c64 cannot"),
    ({"backbones/encoder": ENCODER | LEARNED}, "backbones.encoder: reads 64 tokens .*imdb has max_tokens = 128"),
    ({"backbones/encoder/position_embedding_type": "alibi"}, "models.favor-m64: .*'alibi'"),
    (GRU | {TUNED + "/classifier_pooling": "cls"}, "finetune.task.classifier_pooling: cls"),
    (OF_T5, "tokenizers.wordpiece.sentinels: 0 are too few at pretrain on wikipedia"),
    ({TUNED: {"kind": "text_to_text", "targets": ["a", "b", "c"]}}, "finetune.task.targets: 3 for 2 labels"),
    ({CHANGES: {"finetune": {"task": TAUGHT}}, "models/favor-m64/skip": ["finetune"]}, "teacher: favor-m64 does not"),
    (PROBED | {"stages/probe": PROBE | {"task": MATCHING}}, "stages.probe.task.phrases: 3"),
    ({"stages/pretrain/recipe/patience": 2}, "stages.pretrain.recipe.patience: .*Add best to recipe.keep"),
    ({CLASS_WEIGHTS: {"yse": 2.0}}, "stages.finetune.recipe.class_weights: .*'yse'.*'yes'.*no, yes"),
    ({CLASS_WEIGHTS: {"yes": 0.0}}, "finetune.*recipe.class_weights.*yes: .*greater than 0"),
    ({"stages/tapt/recipe/class_weights": "balanced"}, "tapt.recipe.class_weights: the task masked_lm has no weights"),
    # Documents and labels
    ({**SPANS, IMDB + "/labels": ["a", "b", "c"]}, "datasets.imdb: labels = .*spans"),
    ({**SPANS, IMDB + "/window_stride": 127}, "datasets.imdb: window_stride = 127, .*126 tokens"),
    (
        {IMDB: GENERATED | {"source": "local", "local": {"files": {"train": ["a"]}, "ground_truth": {"trian": ["b"]}}}},
        "imdb.local.ground_truth: .*trian.*train",
    ),
    ({IMDB + "/label_per": "word", IMDB + "/augmentation": AUGMENTATION}, "augmentation: .*label_per"),
    ({IMDB + "/augmentation": AUGMENTATION | {"by": "masked_lm"}}, "'masked_lm'.*'masked_lm'"),
    (
        {IMDB + "/split": {"published": True}, IMDB + "/augmentation": AUGMENTATION | {"leaked": True}},
        "leaked:.*published",
    ),
    ({IMDB + "/split": {"folds": {"validation": 1, "test": 2}}, IMDB + "/balance": True}, "imdb:.*split.folds"),
    # Results
    ({F1: {"stage": "tapt", "columns": ["loss"], "models": ["tfidf"]}}, "tables.f1.models: tfidf .* tapt on imdb"),
]
"""Changes by which sections do not fit together, and what one of the problems says."""


def load(*changes):
    """Load the small study with changes below `experiment`, or below the other section that their place names."""
    others = ("report", "execution", "experimnt")
    places = [place if place.split("/")[0] in others else f"experiment/{place}" for place, _ in changes]
    return load_study([("small.yaml", changed(SMALL, *zip(places, dict(changes).values(), strict=True)))])


def message_of(*changes):
    with pytest.raises(ConfigError) as error:
        load(*changes)
    return str(error.value)


@pytest.mark.parametrize(("changes", "expected"), FIELDS, ids=[expected for _, expected in FIELDS])
def test_field_that_is_wrong_draws_one_problem(changes, expected):
    (problem,) = message_of(*changes.items()).split("\n- ")[1:]
    assert re.search(expected, problem)


@pytest.mark.parametrize(("changes", "expected"), FITS, ids=[expected for _, expected in FITS])
def test_sections_that_do_not_fit_are_named(changes, expected):
    assert re.search(expected, message_of(*changes.items()))


def test_arguments_are_read_as_files_are():
    layers = read_arguments(["execution={gpus_per_run: 2, job: {gpu: 0}}", "execution={wandb: 1:30}"])
    assert layers[1] == ("--config", {"execution": {"wandb": "1:30"}})
    execution = study(layers=layers[:1]).execution
    assert (execution.gpus_per_run, execution.job.gpu) == (2, 0)


# Results that compare


# Stages and what they start from


def test_stages_that_a_model_skips_are_passed_over():
    graph = study(("models/sdpa/skip", ["pretrain"]), ("models/sdpa/start", "scratch")).graph
    assert graph.stages_of("sdpa") == ["tapt", "finetune"]
    assert graph.parent_stage("sdpa", "tapt") is None
    assert graph.parent_stage("sdpa", "finetune") == "tapt"
    graph = study(("models/sdpa/skip", ["tapt"])).graph
    assert graph.parent("sdpa", "finetune", "imdb") == ("pretrain", "wikipedia")
    changing = SDPA | {"skip": ["tapt"], "changes": {"tapt": {"mechanism": "favor-m64"}}}
    graph = study(("models/sdpa", changing)).graph
    kinds = [graph.backbone_at("sdpa", stage, None).mechanism.kind for stage in graph.stages_of("sdpa")]
    assert kinds == ["sdpa", "favor"], "what a model changes at a stage that it skips holds later"


def test_start_that_an_entry_names_is_taken_where_there_is_one():
    made = study(("stages/finetune/data", {"imdb": {"start": "arxiv"}}), ("models/skipping", SDPA | {"skip": ["tapt"]}))
    parents = {run.id.model: run.parent for run in made.runs if run.id.stage == "finetune" and run.id.seed == 2}
    assert parents["sdpa"] == ("tapt", "sdpa", "arxiv", 2, "")
    assert parents["skipping"] == ("pretrain", "sdpa", "wikipedia", 2, "")
    origins = made.graph.origins("skipping", "finetune", "imdb")
    assert {stage: origin.dataset for stage, origin in origins.items()} == {"pretrain": "wikipedia"}
    for entries, before in ((["imdb", "arxiv"], "arxiv"), (["imdb"], "imdb"), (["wikipedia"], "wikipedia")):
        graph = study(
            ("stages/pretrain/data", {entry: {} for entry in entries}),
            ("stages/finetune/data", {"imdb": {"start": "arxiv"}}),
            ("models/skipping", SDPA | {"skip": ["tapt"]}),
        ).graph
        assert graph.parent_dataset("finetune", "tapt", "imdb") == "arxiv"
        assert graph.parent_dataset("finetune", "pretrain", "imdb") == before


def test_runs_start_from_their_own_seed_or_the_first():
    made = study(("stages/pretrain/seeds", [7, 8]), ("stages/tapt/seeds", [2, 3]))
    seeds = {run.id[:4]: run.parent.seed for run in made.runs if run.id.model == "sdpa" and run.parent}
    assert [seeds["tapt", "sdpa", "imdb", seed] for seed in (2, 3)] == [7, 7]
    assert [seeds["finetune", "sdpa", "imdb", seed] for seed in (1, 2)] == [2, 2]
    own = {run.id[:4]: run.parent.seed for run in study().runs if run.parent}
    assert {place[3] - seed for place, seed in own.items()} == {0}


OTHER_VALUES = {"r": 4, "alpha": 9, "dropout": 0.25, "targets": ["query"], "merge": False}
"""Another value than the default of each field of `lora`, the section of a recipe."""


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_one_field_of_a_section_keeps_the_others(name):
    """An entry, a change of a model, and a file that extends another one may set it."""
    fields = Recipe.model_fields["lora"].annotation.__args__[0].model_fields
    assert set(OTHER_VALUES) == set(fields)
    assert fields[name].default != OTHER_VALUES[name]
    stage, one = "stages/finetune", {"lora": {name: OTHER_VALUES[name]}}
    rest = {other: given for other, given in OTHER_VALUES.items() if other != name}
    common = [(f"{stage}/recipe/lora", rest), (f"{stage}/data", {"imdb": {}})]
    layer = {"experiment": {"stages": {"finetune": {"recipe": one}}}}
    made = [
        study(*common, (f"{stage}/data/imdb/recipe", one)),
        study(*common, (CHANGES, {"finetune": {"recipe": one}})),
        study(*common, layers=[("above.yaml", layer)]),
    ]
    for each in made:
        assert each.graph.work("sdpa", "finetune", "imdb").recipe.lora.model_dump() == OTHER_VALUES
    without = study(*common, (CHANGES, {"finetune": {"recipe": {"lora": None}}}))
    assert without.graph.work("sdpa", "finetune", "imdb").recipe.lora is None


def test_model_changes_a_stage_and_shares_runs_before_it():
    graph = study((CHANGES, {"tapt": {"mechanism": "favor-m64"}})).graph
    kinds = [graph.backbone_at("sdpa", stage, "imdb").mechanism.kind for stage in graph.experiment.stages]
    assert kinds == ["sdpa", "favor", "favor"]
    deviations = {"tapt": {"recipe": {"batch_size": 4}}, "finetune": {"task": {"classifier_head": "none"}}}
    graph = study((CHANGES, deviations)).graph
    adapted, tuned = (graph.work("sdpa", stage, "imdb") for stage in ("tapt", "finetune"))
    others = [graph.work("favor-m64", stage, "imdb") for stage in ("tapt", "finetune")]
    assert (adapted.recipe.batch_size, adapted.recipe.epochs) == (4, RECIPE["epochs"])
    assert (tuned.recipe, tuned.task.classifier_head) == (others[1].recipe, "none")
    assert [(work.recipe.batch_size, work.task.kind) for work in others] == [(8, "masked_lm"), (8, KIND)]
    assert others[1].task.classifier_head == "bert"
    graph = study(("models/same", SDPA), ("models/own", SDPA | {"changes": {"tapt": {"recipe": {"epochs": 3}}}})).graph
    owners = [
        [graph.owner(name, stage, next(iter(section.data))) for stage, section in graph.experiment.stages.items()]
        for name in ("same", "own")
    ]
    assert owners == [["sdpa"] * 3, ["sdpa", "own", "own"]]


def test_class_weights_of_baselines():
    """Those of the recipe of the stage that fits them, unless a model or a backbone has its own."""
    start, own = {"skip": ["pretrain", "tapt"]}, {"finetune": {"recipe": {"class_weights": "balanced"}}}
    made = study(
        (CLASS_WEIGHTS, {"yes": 3.0}),
        ("backbones/unweighted", {"kind": "tfidf", "class_weight": None}),
        ("models/own", start | {"backbone": "tfidf", "changes": own}),
        ("models/none", start | {"backbone": "unweighted"}),
        ("datasets/other", DATASET | {"labels": ["bad", "good"]}),
        ("stages/probe", PROBE | {"data": {"other": {"start": "imdb"}}}),
    )
    backbones = {(run.id.stage, run.id.model): run.backbone for run in made.runs if not run.reads_tokens}
    expected = {"tfidf": {"yes": 3.0}, "own": "balanced", "none": None}
    assert {model: backbones["finetune", model].class_weight for model in expected} == expected
    assert backbones["probe", "tfidf"].class_weight == {"good": 3.0}
    settings = {(run.id.stage, run.id.model): json.loads(run.settings) for run in made.runs}
    assert settings["finetune", "tfidf"]["backbone"]["class_weight"] == {"yes": 3.0}
    assert not {"class_weights", "patience"} & settings["tapt", "sdpa"]["recipe"].keys()


@pytest.mark.parametrize(
    "change",
    [
        ("models/sdpa", SDPA | {"changes": {"probe": {"mechanism": "favor-m64"}}}),
        ("models/sdpa", SDPA | {"changes": {"probe": {"backbone": "turned"}}}),
        ("models/sdpa", SDPA | {"skip": ["pretrain", "tapt", "finetune"], "start": {"folder": "elsewhere/model"}}),
        ("stages/probe/data/arxiv", {"recipe": RECIPE}),
    ],
    ids=["another mechanism", "other positions", "from elsewhere", "trained on other data"],
)
def test_stage_without_recipe_evaluates_a_trained_model(change):
    turned = SMALL["experiment"]["backbones"]["encoder"] | {"rope_scale": 0.5}
    graph = study(*PROBED.items(), ("backbones/turned", turned), change).graph
    assert not graph.trains("sdpa", "probe", "imdb")
    assert graph.splits("sdpa", "probe", "imdb") == ("validation", "test")
    assert graph.splits("tfidf", "finetune", "imdb") == ("train", "validation", "test")


def test_recurrent_models_pass_the_stages_without_attention():
    lstm = [("backbones/lstm", {"kind": "recurrent", "cell": "lstm", "hidden_size": 64})]
    row = ("models/lstm", {"backbone": "lstm"})
    graph = study(*lstm, row).graph
    assert graph.stages_of("lstm") == ["pretrain", "tapt", "finetune"]
    assert all(graph.trains("lstm", stage, "imdb") for stage in ("tapt", "finetune"))
    assert "models.lstm.mechanism" in message_of(*lstm, ("models/lstm", {"backbone": "lstm", "mechanism": "sdpa"}))
    swapped = {"backbone": "lstm", "changes": {"tapt": {"backbone": "encoder", "mechanism": "sdpa"}}}
    assert "from pretrain to tapt, a backbone of kind encoder" in message_of(*lstm, ("models/lstm", swapped))
    for kind in ("attention_maps", "heads"):
        maps = {"kind": kind, "stage": "pretrain", "models": ["sdpa", "lstm"]}
        assert re.search("analyses.a.models: .*lstm", message_of(*lstm, row, (A, maps)))


def test_models_of_a_chain_read_by_one_tokeniser():
    own = [("tokenizers/own", {"source": "trained", "corpus": "imdb"}), ("corpora/wikipedia/tokenizer", "wordpiece")]
    datasets = [("datasets/imdb/tokenizer", "own"), ("datasets/arxiv/tokenizer", "own")]
    assert re.search("tapt.data.imdb: .* own, .*wikipedia, read by wordpiece", message_of(*own, *datasets))
    alone = [("models/sdpa/tokenizer", "own"), ("models/lsh-h2-c64", DELETE), ("models/favor-m64", DELETE)]
    assert study(*own, *datasets, *alone).graph.tokenizer_of("sdpa", "wikipedia") == "own"
    only = [(f"models/{name}", DELETE) for name in ("sdpa", "lsh-h2-c64", "favor-m64")]
    stages = [("stages/pretrain", DELETE), ("stages/tapt", DELETE), ("stages/finetune/start", DELETE)]
    graph = study(*only, *stages, ("models/tfidf/skip", DELETE), ("tokenizers", {})).graph
    assert not graph.reads_tokens("tfidf", "finetune", "imdb")


def test_labels_of_spans_and_words_give_runs():
    graph = study(
        *SPANS.items(),
        ("backbones/words", {"kind": "tfidf_spans"}),
        ("backbones/all", {"kind": "everything"}),
        *((f"models/{name}", {"backbone": name, "skip": ["pretrain", "tapt"]}) for name in ("words", "all")),
        (IMDB + "/window_stride", 64),
        (IMDB + "/split", {"folds": {"file": "folds.csv", "validation": 4, "test": 3}}),
    ).graph
    work = graph.experiment.stages["finetune"].data["imdb"]
    assert (work.task.label_form, work.task.threshold, work.keep) == ("span", "search", ["best"])
    assert [graph.trains(name, "finetune", "imdb") for name in ("sdpa", "words", "all")] == [True, False, False]
    assert [graph.experiment.datasets[name].window_stride for name in ("imdb", "arxiv")] == [64, 0.5]
    experiment = study(
        ("models/tfidf", DELETE),
        *((f"datasets/{name}/label_per", "word") for name in ("imdb", "arxiv")),
        (TUNED, {"kind": "token_classification", "classifier_dropout": 0.0}),
        (WORDPIECE, {"source": "trained", "algorithm": "words", "enclose": False}),
    ).experiment
    work = experiment.stages["finetune"].data["imdb"]
    assert (work.task.label_form, work.keep) == ("word", ["best"])
    assert experiment.stages["tapt"].data["imdb"].task.kind == "masked_lm"
    numbered = study((IMDB + "/labels", {"prefix": "v", "count": 3})).experiment.datasets["imdb"]
    assert numbered.labels == numbered.preparation.labels == ["v0", "v1", "v2"]


def test_entry_of_a_stage_lies_over_what_entries_share():
    experiment = study(
        (TUNED + "/classifier_dropout", 0.3),
        ("stages/finetune/data/arxiv", {"task": {"classifier_pooling": "cls"}, "recipe": {"epochs": 9}}),
        ("stages/finetune/data/imdb", {"recipe": {"keep": ["last", "state"]}}),
    ).experiment
    imdb, arxiv = (experiment.stages["finetune"].data[name] for name in ("imdb", "arxiv"))
    assert (imdb.task.classifier_pooling, imdb.task.classifier_dropout, imdb.recipe.epochs) == ("mean", 0.3, 2)
    assert (arxiv.task.classifier_pooling, arxiv.task.classifier_dropout, arxiv.recipe.epochs) == ("cls", 0.3, 9)
    assert experiment.stages["pretrain"].data["wikipedia"].keep == ["last"]
    assert (arxiv.keep, imdb.keep) == (["best"], ["last", "state"])


def test_study_read_from_its_own_dump_is_the_same():
    first = study((SDPA_START, {"folder": "somewhere/model"}))
    assert type(first).model_validate(first.model_dump(mode="json")) == first

"""The shipped studies, and what a study refuses: every problem is named, all of them in one message."""

import json
import re
import typing

import pytest
import yaml
from small_studies import DELETE, RECIPE, SMALL, changed, study

from lib.backbones.settings import BACKBONES
from lib.core.errors import ConfigError
from lib.core.files import read_value
from lib.core.settings import BaseSettings
from lib.study.configuration import SHIPPED, load_study, merged, read_arguments, read_layers
from lib.study.recipe import Recipe
from lib.tasks.settings import TASKS
from lib.workflow.commands.config_reference import config_readme, config_schema

MECHANISMS = [
    "sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128",
    "favor-m64", "favor-m128", "favor-m256", "favor-m512",
]  # fmt: skip


AUGMENTATION = {"labels": ["yes"], "by": "synonyms", "synonyms": {"local": "wordnet"}}


@pytest.fixture
def shipped():
    """Load a shipped study."""
    return lambda name: load_study(read_layers([SHIPPED[f"{name}.yaml"]]))


@pytest.mark.parametrize(
    ("name", "chosen"), [("config", False), ("small", False), ("demo", False), ("published_small", True)]
)
def test_only_the_grid_keeps_the_penalty_of_the_reproduced_study(shipped, name, chosen):
    tfidf = shipped(name).graph.backbone_at("tfidf", "finetune", "imdb")
    assert (tfidf.C, tfidf.class_weight) == (("validation", "validation") if chosen else (1.0, None))


def test_the_full_grid_is_what_the_study_compares(shipped):
    experiment = shipped("config").experiment
    assert list(experiment.mechanisms) == MECHANISMS
    assert list(experiment.models) == ["tfidf", *MECHANISMS]
    assert list(experiment.datasets) == ["imdb", "hyperpartisan", "arxiv"]
    assert experiment.seeds == [420]


def test_every_model_of_the_grid_passes_the_three_stages(shipped):
    graph = shipped("config").graph
    for name in MECHANISMS:
        assert graph.chain("finetune") == ["finetune", "tapt", "pretrain"]
        assert graph.stages_of(name) == ["pretrain", "tapt", "finetune"]
        assert graph.backbone_at(name, "tapt", "imdb").mechanism.name() == name
    assert graph.stages_of("tfidf") == ["finetune"]
    assert not graph.trains("tfidf", "finetune", "imdb")


def test_the_recipe_of_the_grid_is_laid_together(shipped):
    work = shipped("config").experiment.stages["finetune"].data["imdb"]
    assert (work.recipe.epochs, work.recipe.min_lr_ratio, work.recipe.freeze_layers) == (8, 0.2, 2)
    assert (work.task.classifier_pooling, work.task.classifier_dropout) == ("mean", 0.2)
    assert work.keep == ["best"]


def test_the_demo_keeps_the_mechanisms_and_downloads_nothing(shipped):
    full, demo = shipped("config"), shipped("demo")
    assert demo.experiment.mechanisms == full.experiment.mechanisms
    assert list(demo.experiment.models) == list(full.experiment.models)
    assert demo.execution.results == "results/demo"
    corpora = [*demo.experiment.corpora.values(), *demo.experiment.datasets.values()]
    assert {corpus.source for corpus in corpora} == {"generated"}
    assert {tokenizer.source for tokenizer in demo.experiment.tokenizers.values()} == {"trained"}


def test_the_small_real_study_has_the_grid_on_the_users_own_files(shipped):
    small, full = shipped("small"), shipped("config")
    assert list(small.experiment.models) == list(full.experiment.models)
    assert list(small.experiment.datasets) == list(full.experiment.datasets)
    corpora = [*small.experiment.corpora.values(), *small.experiment.datasets.values()]
    assert {corpus.source for corpus in corpora} == {"local"}
    assert all(part.recipe.freeze_layers == 0 for part in small.experiment.stages["finetune"].data.values())
    assert (small.execution.results, small.report.published) == ("results/small", None)


def test_every_shipped_study_has_results_of_its_own():
    studies = {}
    for path in sorted(SHIPPED.values()):
        studies[path.name] = load_study(read_layers([path])).execution.results
    assert studies["config.yaml"] == "results"
    # More rows of the same study, whose runs they share.
    assert studies.pop("demo_recurrent.yaml") == studies["demo.yaml"]
    assert studies.pop("toy_beyond.yaml") == studies["toy.yaml"]
    assert studies.pop("toy_mechanisms.yaml") == studies["toy.yaml"]
    assert studies.pop("full.yaml") == studies["config.yaml"]
    assert studies.pop("search_each.yaml") == studies["config.yaml"]
    assert studies.pop("mechanisms.yaml") == studies["config.yaml"]
    assert studies.pop("lra_files.yaml") == studies["lra.yaml"]
    assert studies.pop("mechanisms_small.yaml") == studies["published_small.yaml"]
    assert studies.pop("demo_full.yaml") == studies["demo.yaml"]
    assert len(set(studies.values())) == len(studies), studies


GENERATED = SMALL["experiment"]["datasets"]["imdb"]


def toy(generator, documents, **options):
    """A dataset of a toy task."""
    return GENERATED | {"generated": {"documents": documents, "generator": generator, "options": options}}


ENCODER = {"kind": "encoder", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SHA = "0" * 40

LLAMA = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}
LORA = "stages/pretrain/recipe/lora"

# What is wrong with one section, whatever the others say.
BAD = {
    "adapters of no rank": ({LORA: {"r": 0}}, "stages.pretrain.recipe.lora.r.*greater than 0. Found 0"),
    "adapters in nothing": ({LORA: {"targets": []}}, "stages.pretrain.recipe.lora.targets.*at least 1"),
    "adapters beside frozen blocks": (
        {LORA: {}, "stages/pretrain/recipe/freeze_layers": 1},
        "stages.pretrain.*: freeze_layers and freeze_embeddings.*lora",
    ),
    "adapters with a state": (
        {LORA: {}, "stages/pretrain/recipe/keep": ["last", "state"]},
        r"stages.pretrain.*: keep = \['last', 'state'\]:.*'state'",
    ),
    "unknown key": ({"backbones/encoder/hiden_size": 64}, "experiment.backbones.encoder.hiden_size: unknown key"),
    "unknown key at the top": ({"experimnt": {}}, "experimnt: unknown key"),
    "missing key": ({"datasets/imdb/max_tokens": DELETE}, "experiment.datasets.imdb.max_tokens: missing"),
    "wrong type": ({"stages/pretrain/recipe/epochs": "ten"}, "experiment.stages.pretrain.recipe.epochs.*Found 'ten'"),
    "unknown mechanism": (
        {"mechanisms/softmax": {"kind": "softmax"}},
        "mechanisms.softmax: .*'softmax'.*mechanism.*favor.*lsh.*sdpa",
    ),
    "unknown backbone": ({"backbones/bert": {"kind": "bert"}}, "backbones.bert: .*'bert'.*backbone.*encoder.*tfidf"),
    "unknown task": (
        {"stages/tapt/task/kind": "nsp"},
        "stages.tapt.task: .*'nsp'.*task.*masked_lm, pair_classification, regression, sequence_",
    ),
    "a mechanism without a kind": ({"mechanisms/sdpa": {"use_native_sdpa": True}}, "mechanisms.sdpa: .*None"),
    "unknown parameter": ({"mechanisms/sdpa/chunk_size": 64}, "mechanisms.sdpa.chunk_size: unknown key"),
    "unknown setting of a task": (
        {"stages/tapt/task/classifier_pooling": "mean"},
        "stages.tapt.task.classifier_pooling: unknown key",
    ),
    "a name that contradicts": ({"mechanisms/lsh-h2-c64/chunk_size": 32}, "mechanisms.lsh-h2-c64:.*lsh-h2-c32"),
    "a name that no path could hold": (
        {"models/a model": {"backbone": "tfidf", "skip": ["pretrain", "tapt"]}},
        "models.a model",
    ),
    "an odd number of features": (
        {"mechanisms/favor-m63": {"kind": "favor", "nb_features": 63}},
        "mechanisms.favor-m63: nb_features = 63 is odd.*Use 64",
    ),
    "no number of features": (
        {"mechanisms/favor-relu": {"kind": "favor", "phi": "relu"}},
        "mechanisms.favor-relu: nb_features is missing",
    ),
    "heads that do not divide": ({"backbones/encoder/num_attention_heads": 7}, "num_attention_heads = 7.*64"),
    "an odd head under rope": ({"backbones/encoder/attention_size": 6}, "3 wide.*turns pairs"),
    "weight dropout without weights": (
        {"backbones/encoder/attention_dropout": 0.1},
        "models.favor-m64: attention_dropout = 0.1, but favor-m64",
    ),
    "a probability of 1": ({"backbones/encoder/mlp_dropout": 1.0}, "encoder.mlp_dropout.*less than 1"),
    "a source without its section": ({"datasets/imdb/source": "local"}, "datasets.imdb: source is 'local'.*'local'"),
    "shares above 1": (
        {"stages/tapt/task": {"kind": "masked_lm", "random_token_probability": 0.3}},
        "= 1.1; expected at most 1",
    ),
    "a broken pattern": ({"datasets/imdb/remove": "("}, r"datasets.imdb.remove: '\('"),
    "a repeated label": ({"datasets/imdb/labels": ["a", "a"]}, "datasets.imdb.labels.*repeat 'a'"),
    "one label": ({"datasets/imdb/labels": ["a"]}, r"datasets.imdb: labels = \['a'\].*least"),
    "one numbered label": (
        {"datasets/imdb/labels": {"prefix": "v", "count": 1}},
        "datasets.imdb.labels.*greater than.*2",
    ),
    "numbered labels without a prefix": ({"datasets/imdb/labels": {"count": 2}}, "datasets.imdb.labels.*prefix"),
    "a state size that nobody knows": (
        {"report/tables": {"x": {"stage": "finetune", "columns": ["state_size"]}}},
        "report.tables.x.stage: shows how much of a text models keep, which runs of tfidf at finetune",
    ),
    "no seed": ({"seeds": []}, "experiment.seeds"),
    "a seed twice": ({"seeds": [1, 2, 1]}, r"experiment.seeds: seeds \[1, 2, 1\] repeat one"),
    "a stage's seed twice": ({"stages/tapt/seeds": [1, 1]}, "stages.tapt.seeds: .*repeat one"),
    "an entry's seed twice": ({"stages/tapt/data/imdb": {"seeds": [1, 1]}}, "imdb.seeds: .*repeat one"),
    "a seed that NumPy does not take": (
        {"seeds": [2**32]},
        "experiment.seeds.0: .*less than 4294967296. Found 4294967296",
    ),
    "epochs without end": (
        {"stages/tapt/recipe": RECIPE | {"epochs": 10**30}},
        "stages.tapt.*epochs: .*less than.*1000000000. Found 1000",
    ),
    "a batch without end": (
        {"stages/tapt/recipe": RECIPE | {"batch_size": 10**18}},
        "stages.tapt.*batch_size: .*less than.*1000000000. Found 1000",
    ),
    "adapters without a place": (
        {"backbones/gru": {"kind": "recurrent", "cell": "gru"}, "models/gru": {"backbone": "gru"}, LORA: {"r": 8}},
        "stages.pretrain.recipe.lora: the backbone recurrent has no linear layers to adapt .gru.",
    ),
    "adapters in a layer that a shared projection lacks": (
        {LORA: {"targets": ["query", "key"]}},
        "stages.pretrain.recipe.lora: the backbone encoder has no linear layer key for targets, but",
    ),
    "no model": ({"models": {}}, "experiment.models.*at least 1"),
    "models as a list": (
        {"models": ["sdpa"]},
        "experiment.models: expected keys with their values, such as {key: value}",
    ),
    "a list without its values": ({"seeds": None}, r"experiment.seeds: expected a list such as \[1, 2\]. Found None"),
    "an unknown first weight": (
        {"models/sdpa/start": "nothing"},
        "models.sdpa.start: expected 'scratch', {folder.*Found 'nothing'",
    ),
    "a start in two places": (
        {"models/sdpa/start": {"folder": "a", "repository": "b/c", "revision": SHA}},
        "models.sdpa.start: expected either a folder or a repository",
    ),
    "a repository without a revision": (
        {"models/sdpa/start": {"repository": "b/c"}},
        "models.sdpa.start: a repository needs a revision",
    ),
    "weights that may move": (
        {"models/sdpa/start": {"repository": "b/c", "revision": "main"}},
        "models.sdpa.start: revision = 'main'.*commit.*unpinned: true",
    ),
    "a document of [CLS] only": ({"datasets/imdb/max_tokens": 1}, "datasets.imdb.max_tokens: .*equal to 2"),
    "a slice of [CLS] only": ({"corpora/wikipedia/short/max_tokens": 1}, "short.max_tokens: .*equal to 2"),
    "no article": (
        {"corpora/wikipedia/short/articles": 0, "corpora/wikipedia/long/articles": 0},
        "corpora.wikipedia:.*0",
    ),
    "keywords, but no number of them": (
        {"corpora/wikipedia/keywords": ["film"]},
        "corpora.wikipedia: keywords are named, but not min_keywords",
    ),
    "a keyword that cannot occur": ({"corpora/wikipedia/keywords": ["box office"]}, "keywords.*can never occur"),
    "a split that leaves nothing": (
        {"datasets/imdb/split": {"validation": 0.5, "test": 0.5}},
        "validation = 0.5 and test = 0.5",
    ),
    "a revision that may move": (
        {"datasets/imdb/hub": {"repository": "a/b", "revision": "main", "files": {"train": ["x.csv"]}}},
        "datasets.imdb.hub: revision = 'main'.*commit.*unpinned: true",
    ),
    "a vocabulary that may move": (
        {"tokenizers/wordpiece": {"source": "hub"}},
        "tokenizers.wordpiece: revision = 'main'.*commit.*unpinned: true",
    ),
    "a file without its checksum": (
        {"datasets/imdb/url": {"files": {"train": [{"url": "https://a.org/x.csv", "size": 3}]}}},
        "https://a.org/x.csv has no sha256.*unpinned: true",
    ),
    "a vocabulary without its path": (
        {"tokenizers/wordpiece": {"source": "local"}},
        "tokenizers.wordpiece: source is 'local', but 'path' is missing",
    ),
    "words that are not the study's own": (
        {"tokenizers/wordpiece": {"source": "local", "path": "vocab.txt", "algorithm": "words"}},
        "tokenizers.wordpiece: source = local, but algorithm = words has trained",
    ),
    "bytes that are not the study's own": (
        {"tokenizers/wordpiece": {"source": "hub", "revision": SHA, "algorithm": "bpe"}},
        "tokenizers.wordpiece: source = hub, but algorithm = bpe has trained",
    ),
    "bytes that come from somewhere": (
        {"tokenizers/wordpiece": {"source": "trained", "algorithm": "bytes"}},
        "tokenizers.wordpiece: source = trained, but algorithm = bytes has none",
    ),
    "a tokeniser without a source": (
        {"tokenizers/wordpiece": {"algorithm": "words"}},
        "tokenizers.wordpiece: source = None, but algorithm = words has trained",
    ),
    "fewer tokens than bytes": (
        {"tokenizers/wordpiece": {"source": "trained", "vocab_size": 200, "algorithm": "bpe"}},
        "tokenizers.wordpiece: vocab_size = 200; expected more than 261",
    ),
    "a published tokeniser that is trained": (
        {"tokenizers/wordpiece": {"source": "trained", "algorithm": "published"}},
        "tokenizers.wordpiece: source = trained, but algorithm = published has hub or local",
    ),
    "a published tokeniser without its folder": (
        {"tokenizers/wordpiece": {"source": "local", "algorithm": "published"}},
        "tokenizers.wordpiece: source is 'local', but 'path' is missing",
    ),
    "a published tokeniser that may move": (
        {"tokenizers/wordpiece": {"source": "hub", "repository": "a/b", "algorithm": "published"}},
        "tokenizers.wordpiece: revision = 'main'",
    ),
    "a table of an unknown kind": (
        {"report/tables/f1": {"kind": "pivot", "stage": "finetune"}},
        "tables.f1: kind: 'pivot'.*kind.*classes, .*stage",
    ),
    "a table of nothing": ({"report/tables/f1": {"stage": "finetune"}}, "tables.f1.columns: missing"),
    "a table of no columns": (
        {"report/tables/f1": {"stage": "finetune", "columns": []}},
        "tables.f1.columns: .*at least 1 item",
    ),
    "a table of no stages": (
        {"report/tables/f1": {"stage": [], "columns": ["f1"]}},
        "tables.f1.stage.*: .*at least 1 item",
    ),
    "classes of all models at once": (
        {"report/tables/f1": {"kind": "classes", "stage": "finetune"}},
        "tables.f1.models: missing",
    ),
    "classes of two models": (
        {"report/tables/f1": {"kind": "classes", "stage": "finetune", "models": ["tfidf", "sdpa"]}},
        "tables.f1.models: .*at most 1 item",
    ),
    "a table of no stage": ({"report/tables/f1": {"kind": "classes", "models": ["tfidf"]}}, "tables.f1.stage: missing"),
    "balanced published splits": (
        {"datasets/imdb/split": {"published": True}, "datasets/imdb/balance": True},
        "datasets.imdb:.*split.published",
    ),
    "classes of several stages": (
        {"report/tables/f1": {"kind": "classes", "stage": ["tapt", "finetune"], "models": ["sdpa"]}},
        "tables.f1.stage: expected a text",
    ),
    "a stage beside itself": (
        {"report/tables/f1": {"stage": ["finetune", "finetune"], "columns": ["f1"]}},
        r"tables.f1: stage = \['finetune', 'finetune'\].*twice",
    ),
    "a stage whose time would count twice": (
        {"report/figures/x": {"kind": "score_time", "stage": "finetune", "time": ["tapt", "finetune", "tapt"]}},
        r"figures.x: time = \['tapt', 'finetune', 'tapt'\] names tapt twice",
    ),
    "word vectors that would count twice": (
        {"report/tables/x": {"kind": "analogies", "word_vectors": ["film", "film"]}},
        r"tables.x: word_vectors = \['film', 'film'\] names film twice",
    ),
    "a figure of no kind": (
        {"report/figures/x": {"stage": "finetune", "time": ["tapt"]}},
        "figures.x: kind:.*kind.*group_score, .*score_time",
    ),
    "a figure of no time": (
        {"report/figures/x": {"kind": "score_time", "stage": "finetune"}},
        "figures.x.time: missing",
    ),
    "a figure of empty time": (
        {"report/figures/x": {"kind": "score_time", "stage": "finetune", "time": []}},
        "figures.x.time: .*at least 1 item",
    ),
    "a baseline of one figure": (
        {"report/figures/x": {"kind": "score_time", "stage": "finetune", "time": ["tapt"], "baseline": "tfidf"}},
        "figures.x.baseline: unknown key",
    ),
    "a chance in percent": (
        {"report/figures/x": {"kind": "group_score", "stage": "finetune", "chance": 50}},
        "figures.x.chance: .*less than.*1",
    ),
    "a word of no analysis": (
        {"report/analyses/x": {"kind": "embeddings", "stage": "finetune", "dataset": "imdb"}},
        "report.analyses.x.word: missing",
    ),
    "an odd number of features to try": (
        {"report/analyses/x": {"kind": "approximation", "stage": "pretrain", "features": [64, 15]}},
        "report.analyses.x.features.1:.*2. Found 15",
    ),
    "no model kept": ({"stages/tapt/recipe/keep": ["state"]}, "stages.tapt.recipe: keep = .*state"),
}

# What does nothing for the chosen variant.
IDLE = {
    "features of elu": (
        {"mechanisms/favor-elu": {"kind": "favor", "phi": "elu", "nb_features": 64}},
        "nb_features = 64.*phi = 'elu'",
    ),
    "a thaw before the first epoch": (
        {"stages/finetune/recipe/freeze_layers": 1, "stages/finetune/recipe/freeze_epochs": 0},
        "stages.finetune.recipe.freeze_epochs: .*greater than 0.*Found 0",
    ),
    "a stretch of unknown kind": (
        {"backbones/encoder/rope_factor": 4.0},
        "rope_factor = 4.0, but rope_type = 'default' does nothing with it",
    ),
    "a stretch from nowhere": (
        {"backbones/encoder/rope_type": "yarn", "backbones/encoder/rope_factor": 4.0},
        "rope_original_length = None, but rope_type = 'yarn' needs another value",
    ),
    "rotations that are all alike": (
        {
            "backbones/encoder/rope_type": "yarn",
            "backbones/encoder/rope_factor": 4.0,
            "backbones/encoder/rope_original_length": 64,
            "backbones/encoder/rope_theta": 1.0,
        },
        "rope_theta = 1.0.*fast and slow",
    ),
    "a bias without scores": (
        {"backbones/encoder/position_embedding_type": "alibi"},
        "models.favor-m64: position_embedding_type = 'alibi', but favor-m64",
    ),
    "columns of classes": (
        {"report/tables/x": {"kind": "classes", "stage": "finetune", "models": ["tfidf"], "columns": ["f1"]}},
        "report.tables.x.columns: unknown key",
    ),
    "a stage of token lengths": (
        {"report/tables/x": {"kind": "token_lengths", "stage": "tapt"}},
        "report.tables.x.stage: unknown key",
    ),
    "texts of a corpus": (
        {"report/tables/x": {"kind": "texts", "datasets": ["wikipedia"]}},
        "report.tables.x.datasets:.*'wikipedia'. Known: imdb, arxiv",
    ),
    "a class that is none": (
        {"report/tables/x": {"kind": "detection", "stage": "finetune", "positive": "yess"}},
        "report.tables.x.positive: there is no 'yess'. Did you mean 'yes'. Known: no, yes",
    ),
    "errors of what is not predicted": (
        {"report/tables/x": {"kind": "errors", "stage": "tapt"}},
        "report.tables.x.stage: shows predictions, which runs of sdpa, lsh-h2-c64, favor-m64 at tapt",
    ),
    "near copies of all texts": (
        {"datasets/imdb/near_copies": {"threshold": 0}},
        "datasets.imdb.near_copies.threshold:.*greater than 0",
    ),
    "columns of groups": (
        {"report/tables/x": {"kind": "groups", "stage": "finetune", "columns": ["f1"]}},
        "report.tables.x.columns: unknown key",
    ),
    "a time without an axis": (
        {"report/figures/x": {"kind": "group_score", "stage": "finetune", "time": ["tapt"]}},
        "report.figures.x.time: unknown key",
    ),
    "another score of groups": (
        {"report/figures/x": {"kind": "group_score", "stage": "finetune", "column": "loss"}},
        "report.figures.x.column: unknown key",
    ),
    "a label of stages": (
        {"report/tables/x": {"stage": "finetune", "columns": ["f1"], "label": "distance"}},
        "report.tables.x.label: unknown key",
    ),
    "a chance at any time": (
        {"report/figures/x": {"kind": "score_time", "stage": "finetune", "time": ["tapt"], "chance": 0.5}},
        "report.figures.x.chance: unknown key",
    ),
    "a length of maps": (
        {"report/analyses/x": {"kind": "attention_maps", "stage": "tapt", "dataset": "imdb", "length": 99}},
        "report.analyses.x.length: unknown key",
    ),
    "documents of one document's maps, and a word": (
        {"report/analyses/x": {"kind": "attention_maps", "stage": "pretrain", "documents": 9, "word": "bank"}},
        "(?s)analyses.x.documents: unknown key.*analyses.x.word: unknown key",
    ),
    "a window of maps, and features of heads": (
        {
            "report/analyses/x": {"kind": "attention_maps", "stage": "pretrain", "window": 2},
            "report/analyses/y": {"kind": "heads", "stage": "pretrain", "features": [8], "hashes": [1]},
        },
        "(?s)x.window: unknown key.*y.features: unknown key.*y.hashes: unknown key",
    ),
    "a document of many, and where tokens come from": (
        {"report/analyses/x": {"kind": "heads", "stage": "pretrain", "document": 1, "tokens": "documents"}},
        "(?s)analyses.x.document: unknown key.*analyses.x.tokens: unknown key",
    ),
    "a mechanism of what takes none": (
        {"models/tfidf/mechanism": "sdpa"},
        "models.tfidf.mechanism: its backbone tfidf",
    ),
}

# What does not fit together.
SPANS = {
    "datasets/imdb/label_per": "span",
    "datasets/arxiv/label_per": "span",
    "stages/finetune/task": {"kind": "span_detection"},
    "models/tfidf": DELETE,
}
"""Changes by which the study looks for spans."""
SKIP_TFIDF = {"models/tfidf": DELETE}
KIND = "sequence_classification"
TAUGHT = {"kind": "distillation", "teacher": "favor-m64"}
MATCHING = {"kind": "label_matching", "phrases": ["bad", "good", "odd"]}
T5 = {"model_type": "t5", "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
CORRUPTS = {"changes": {"pretrain": {"task": {"kind": "span_corruption"}}}}
PROBE = {"start": "finetune", "task": {"kind": KIND}, "data": {"imdb": {}}}
SDPA = SMALL["experiment"]["models"]["sdpa"]
MASKED = {"task": {"kind": "masked_lm"}, "recipe": RECIPE, "data": {"imdb": {}, "arxiv": {}}}
GRAPH = {
    "more processes than documents in a batch": (
        {"execution/gpus_per_run": 9},
        "stages.pretrain.recipe.batch_size: 9 processes cannot share 8",
    ),
    "more processes than documents in a variant's batch": (
        {"execution/gpus_per_run": 3, "stages/tapt/variants": {"recipe.batch_size": [8, 2]}},
        "stages.tapt.recipe.batch_size: 3 processes cannot share 2 documents",
    ),
    "an arithmetic that needs a GPU on a CPU": (
        {"precision": "fp16", "execution/training": {"device": "cpu"}},
        "experiment.precision: fp16 needs a GPU",
    ),
    "several GPUs without a process for each": (
        {"execution/job": {"gpu": 2}},
        "execution.job.gpu: .*less than.*1. Found 2",
    ),
    "a start from an unknown stage": (
        {"stages/tapt/start": "pretraining"},
        "stages.tapt.start: there is no 'pretraining'. Did you mean 'pretrain'. Known: pretrain, tapt,",
    ),
    "a circle": (
        {"stages/pretrain/start": "finetune"},
        "stages: pretrain needs finetune needs tapt needs pretrain, a circle. Take `start` or",
    ),
    "a stage that starts from itself": (
        {"stages/pretrain/start": "pretrain"},
        "stages: pretrain needs pretrain, a circle. Take `start` or `settings_from` away",
    ),
    "a stage skipped that a later one needs": (
        {"models/sdpa/skip": ["pretrain"]},
        "models.sdpa: skips pretrain, from which tapt starts.*'scratch'",
    ),
    "a task that a backbone cannot do": (
        {"models/tfidf/skip": ["pretrain"]},
        "stages.tapt.task: the backbone tfidf cannot do masked_lm .tfidf.",
    ),
    "a start that the stage before does not work on": (
        {"stages/finetune/data/imdb": {"start": "wikipedia"}},
        "stages.finetune.data.imdb.start: there is no 'wikipedia'. Known: imdb, arxiv",
    ),
    "labels of a corpus": (
        {"stages/finetune/data/wikipedia": {"start": "imdb"}},
        "stages.finetune.data.wikipedia: sequence_classification.*wikipedia",
    ),
    "labels of no texts": (
        {
            "datasets/imdb/source": "local",
            "datasets/imdb/local": {"files": {"train": ["a.csv"]}, "ground_truth": {"trian": ["b.csv"]}},
        },
        "datasets.imdb.local.ground_truth: has labels of trian, but files has train",
    ),
    "spans of more than two classes": (
        {**SPANS, "datasets/imdb/labels": ["a", "b", "c"]},
        r"datasets.imdb: labels = \['a', 'b', 'c'\].*spans",
    ),
    "spans of texts that are changed": ({**SPANS, "datasets/imdb/remove": "<br>"}, "datasets.imdb: remove .*spans"),
    "windows that leave tokens out": (
        {**SPANS, "datasets/imdb/window_stride": 127},
        "datasets.imdb: window_stride = 127, but a window holds 126 tokens",
    ),
    "an augmentation of an unknown class": (
        {"datasets/imdb/augmentation": AUGMENTATION | {"labels": ["maybe", "yes"]}},
        r"datasets.imdb.augmentation.labels: \['maybe'\].*\['no', 'yes'\]",
    ),
    "an augmentation of words": (
        {"datasets/imdb/label_per": "word", "datasets/imdb/augmentation": AUGMENTATION},
        "augmentation: copies single texts of classes.*label_per",
    ),
    "a way without its section": (
        {"datasets/imdb/augmentation": AUGMENTATION | {"by": "masked_lm"}},
        "'masked_lm'.*'masked_lm'",
    ),
    "WordNet in two places": (
        {
            "datasets/imdb/augmentation": AUGMENTATION
            | {"synonyms": {"local": "a", "url": {"url": "https://a.b/c.zip", "unpinned": True}}}
        },
        "augmentation.synonyms: expected either a url or a local folder or archive. Give one of them",
    ),
    "WordNet without a checksum": (
        {"datasets/imdb/augmentation": AUGMENTATION | {"synonyms": {"url": {"url": "https://a.b/c.zip"}}}},
        "synonyms.url: https://a.b/c.zip has no sha256",
    ),
    "a masked language model from nowhere": (
        {"datasets/imdb/augmentation": AUGMENTATION | {"by": "masked_lm", "masked_lm": {"top_k": 5}}},
        "augmentation.masked_lm: expected either a folder or a repository",
    ),
    "leaked copies of published splits": (
        {"datasets/imdb/split": {"published": True}, "datasets/imdb/augmentation": AUGMENTATION | {"leaked": True}},
        "datasets.imdb.augmentation.leaked:.*split.published",
    ),
    "leaked copies of a part that is held out": (
        {"datasets/imdb/split": {"held_out": "test"}, "datasets/imdb/augmentation": AUGMENTATION | {"leaked": True}},
        "augmentation.leaked:.*split.held_out",
    ),
    "balanced folds": (
        {"datasets/imdb/split": {"folds": {"validation": 1, "test": 2}}, "datasets/imdb/balance": True},
        "datasets.imdb:.*split.folds",
    ),
    "spans to be found in labelled documents": (
        {"stages/finetune/task": {"kind": "span_detection"}, **SKIP_TFIDF},
        "stages.finetune.data.imdb: span_detection needs a label per span, but imdb has one per",
    ),
    "spans to be found by what classifies": (
        {**SPANS, "models/tfidf": {"backbone": "tfidf", "skip": ["pretrain", "tapt"]}},
        "stages.finetune.task: the backbone tfidf cannot do span_detection .tfidf.",
    ),
    "classes of spans": (
        {
            **SPANS,
            "report/tables/x": {"kind": "classes", "stage": "finetune", "models": ["sdpa"]},
            "report/figures/y": {"kind": "calibration", "stage": "finetune"},
        },
        "report.tables.x.stage: shows classes, which runs of sdpa at finetune lack. Leave it out, or",
    ),
    "words to be labelled in labelled documents": (
        {"stages/finetune/task": {"kind": "token_classification"}, **SKIP_TFIDF},
        "stages.finetune.data.imdb: token_classification needs a label per word, but imdb has one per",
    ),
    "a text for every label": (
        {"stages/finetune/task": {"kind": "text_to_text", "targets": ["a", "b", "c"]}, **SKIP_TFIDF},
        r"stages.finetune.task.targets: 3 for 2 labels \(no, yes\)",
    ),
    "texts of what has no decoder": (
        {"stages/finetune/task": {"kind": "text_to_text", "targets": ["a", "b"]}, **SKIP_TFIDF},
        "stages.finetune.task: the backbone encoder cannot do text_to_text .sdpa, lsh-h2-c64,",
    ),
    "a head on what writes texts": (
        {
            "backbones/t5": {"kind": "encoder_decoder", "architecture": T5},
            "models/t5": {"backbone": "t5", "skip": ["pretrain", "tapt"], "start": "scratch"},
        },
        "stages.finetune.task: the backbone encoder_decoder cannot do sequence_classification .t5.",
    ),
    "dropped spans of what has no decoder": (
        {"stages/tapt/task": {"kind": "span_corruption"}},
        "stages.tapt.task: the backbone encoder cannot do span_corruption .sdpa, lsh-h2-c64, favor-m64.",
    ),
    "dropped spans without tokens to stand for them": (
        {
            "backbones/t5": {"kind": "encoder_decoder", "architecture": T5},
            "models/t5": {"backbone": "t5", "skip": ["tapt", "finetune"]} | CORRUPTS,
        },
        "tokenizers.wordpiece.sentinels: 0 are too few at pretrain on wikipedia, where a document of",
    ),
    "more dropped spans than tokens to stand for them": (
        {
            "backbones/t5": {"kind": "encoder_decoder", "architecture": T5},
            "models/t5": {"backbone": "t5", "skip": ["tapt", "finetune"]} | CORRUPTS,
            "tokenizers/wordpiece/sentinels": 2,
        },
        "tokenizers.wordpiece.sentinels: 2 are too few at pretrain on wikipedia, where a document of",
    ),
    "documents to be labelled that have labelled words": (
        {"datasets/arxiv/label_per": "word"},
        "stages.finetune.data.arxiv: sequence_classification.*arxiv",
    ),
    "weights that cannot be handed over": (
        {"models/sdpa/changes": {"tapt": {"mechanism": "lsh-h2-c64"}}},
        "stages.tapt.data.imdb: from pretrain to tapt, lsh-h2-c64 cannot take over weights of sdpa,",
    ),
    "a first token that sees nothing": (
        {
            "backbones/gru": {"kind": "recurrent", "cell": "gru", "bidirectional": False},
            "models/gru": {"backbone": "gru"},
            "stages/finetune/task/classifier_pooling": "cls",
        },
        "stages.finetune.task.classifier_pooling: cls takes the state of the first token, which depends",
    ),
    "a first token that sees nothing, in a variant": (
        {
            "backbones/gru": {"kind": "recurrent", "cell": "gru", "bidirectional": False},
            "models/gru": {"backbone": "gru"},
            "stages/finetune/variants": {"task.classifier_pooling": ["mean", "cls"]},
        },
        "stages.finetune.data.imdb.task.classifier_pooling: cls takes the state of the first token,",
    ),
    "shapes that cannot be handed over": (
        {"backbones/wide": ENCODER | {"hidden_size": 128}, "models/sdpa/changes": {"finetune": {"backbone": "wide"}}},
        "stages.finetune.data.imdb: from tapt to finetune, hidden_size is 128, but the weights come",
    ),
    "positions that do not reach": (
        {"backbones/encoder": ENCODER | {"position_embedding_type": "learned", "max_position_embeddings": 64}},
        "backbones.encoder: reads 64 tokens at most, but imdb has max_tokens = 128 .sdpa, lsh-h2-c64,",
    ),
    "no recipe": (
        {"stages/tapt/recipe": DELETE},
        "stages.tapt.task: the backbone encoder cannot do masked_lm without a recipe .sdpa, lsh-h2-c64,",
    ),
    "no recipe and no trained weights": (
        {"stages/probe": PROBE | {"start": None}, "models/tfidf/skip": ["pretrain", "tapt", "probe"]},
        "stages.probe.data.imdb.recipe: missing, so a trained model is needed, but the weights are",
    ),
    "no recipe and random weights on purpose": (
        {
            "stages/probe": PROBE,
            "models/tfidf/skip": ["pretrain", "tapt", "probe"],
            "models/sdpa": SDPA | {"skip": ["pretrain", "tapt", "finetune"], "start": "scratch"},
        },
        "stages.probe.data.imdb.recipe: missing, so a trained model is needed, but the weights are",
    ),
    "no recipe and no head": (
        {"stages/probe": PROBE | {"start": "tapt"}, "models/tfidf/skip": ["pretrain", "tapt", "probe"]},
        "stages.probe.data.imdb: has no recipe, so it needs a trained head, but tapt trains masked_lm",
    ),
    "no recipe and other labels": (
        {
            "datasets/more": SMALL["experiment"]["datasets"]["imdb"] | {"labels": ["a", "b", "c"]},
            "stages/finetune/data": {"imdb": {}},
            "stages/probe": PROBE | {"data": {"more": {}}},
            "models/tfidf/skip": ["pretrain", "tapt", "probe"],
        },
        "stages.probe.data.more: has no recipe, so it needs a trained head, but the labels of imdb at",
    ),
    "no recipe and labels in another order": (
        {
            "datasets/more": SMALL["experiment"]["datasets"]["imdb"] | {"labels": ["yes", "no"]},
            "stages/finetune/data": {"imdb": {}},
            "stages/probe": PROBE | {"data": {"more": {}}},
        },
        "stages.probe.data.more: has no recipe, so it needs a trained head, but the labels of imdb at",
    ),
    "a start from adapters alone": (
        {"stages/pretrain/recipe/lora": {"merge": False}},
        "stages.pretrain.recipe.lora.merge: false without a start would lose the random weights. Set it",
    ),
    "a start from what does not train": (
        {
            "stages/probe": PROBE,
            "stages/later": PROBE | {"start": "probe", "recipe": RECIPE},
            "models/tfidf/skip": ["pretrain", "tapt", "probe", "later"],
        },
        "stages.later.data.imdb: starts from probe, which has no recipe and so leaves no model .sdpa,",
    ),
    "several tokenisers and none named": (
        {"tokenizers/other": {"source": "trained"}},
        "models.sdpa.tokenizer: missing, and wikipedia",
    ),
    "no tokeniser": ({"tokenizers": {}}, "models.sdpa.tokenizer: missing, and wikipedia"),
    "an unknown tokeniser": ({"models/sdpa/tokenizer": "word"}, "models.sdpa.tokenizer:.*'word'"),
    "an unknown backbone of a model": (
        {"models/sdpa/backbone": "bert"},
        "models.sdpa.backbone:.*'bert'. Known: encoder, tfidf",
    ),
    "an unknown mechanism of a model": (
        {"models/sdpa/mechanism": "linformer"},
        "models.sdpa.mechanism:.*'linformer'. Known: sdpa, lsh-h2-c64, favor-m64",
    ),
    "a model without a mechanism": (
        {"models/sdpa/mechanism": DELETE},
        "models.sdpa.mechanism: missing. Its backbone encoder.*sdpa, lsh-h2-c64, favor-m64",
    ),
    "an unknown stage skipped": ({"models/sdpa/skip": ["adapt"]}, "models.sdpa.skip:.*'adapt'"),
    "a change at an unknown stage": (
        {"models/sdpa/changes": {"adapt": {"mechanism": "favor-m64"}}},
        "models.sdpa.changes:.*'adapt'",
    ),
    "a change to an unknown mechanism": (
        {"models/sdpa/changes": {"tapt": {"mechanism": "favor"}}},
        "models.sdpa.changes.tapt.mechanism:.*'favor'",
    ),
    "a stage on unknown data": (
        {"stages/tapt/data/reuters": {}},
        "stages.tapt.data: there is no 'reuters'. Known: wikipedia, imdb, arxiv",
    ),
    "a stage before it that lacks the dataset": (
        {"datasets/more": SMALL["experiment"]["datasets"]["imdb"], "stages/finetune/data/more": {}},
        "stages.finetune.data.more:.*tapt.*imdb, arxiv",
    ),
    "more frozen than there is": (
        {"stages/finetune/recipe/freeze_layers": 5},
        "stages.finetune.recipe.freeze_layers: 5 is too many, since there are 2 blocks .sdpa,",
    ),
    "an unknown generator": (
        {"datasets/imdb/generated/generator": "reviews"},
        "imdb.generated.generator:.*'reviews'. Known: arxiv, .*wikipedia",
    ),
    "a name that is no generator's": (
        {"datasets/reviews": GENERATED | {"generated": {"documents": 110}}},
        "small.yaml: experiment.datasets.reviews.generated.generator:.*'reviews'",
    ),
    "options of a generator that has none": (
        {"corpora/wikipedia/generated/options": {"shards": 2}},
        "small.yaml: experiment.corpora.wikipedia.generated.options.shards: unknown key",
    ),
    "an option that is left out, and one that is wrong": (
        {"datasets/mirror": toy("reverse", 110, test=10, length=0)},
        "(?s)mirror.generated.options.validation: missing.*mirror.generated.options.length: .*Found 0",
    ),
    "options that contradict each other": (
        {"datasets/mqar": toy("recall", 110, test=10, validation=10, pairs=[33])},
        "mqar.generated.options.pairs: 33.*32",
    ),
    "more distinct texts than there are": (
        {"datasets/dyck": toy("brackets", 300, test=10, validation=10, pairs=5)},
        "dyck.generated.documents: half of 300 are 150.*there are 42..*85",
    ),
    "too few documents to split": (
        {"datasets/imdb/generated/documents": 20},
        "datasets.imdb.generated.documents: 20.*least 110",
    ),
    "one name for two corpora": (
        {"corpora/imdb": SMALL["experiment"]["corpora"]["wikipedia"]},
        "tokenizers.wordpiece.corpus: missing. Name what it is trained on: wikipedia, imdb, imdb, arxiv",
    ),
    "a vocabulary of unknown texts": (
        {"tokenizers/wordpiece/corpus": "reuters"},
        "tokenizers.wordpiece.corpus:.*'reuters'. Known: wikipedia, imdb, arxiv",
    ),
    "a vocabulary of several texts, one of them unknown": (
        {"tokenizers/wordpiece/corpus": ["imdb", "reuters"]},
        "tokenizers.wordpiece.corpus:.*'reuters'. Known: wikipedia, imdb, arxiv",
    ),
    "a vocabulary of no texts in particular": (
        {"corpora/books": SMALL["experiment"]["corpora"]["wikipedia"]},
        "tokenizers.wordpiece.corpus: missing..*wikipedia, books, imdb, arxiv",
    ),
    "a table of an unknown stage": (
        {"report/tables/f1": {"stage": "fine", "columns": ["f1"]}},
        "report.tables.f1.stage:.*'fine'",
    ),
    "a table of an unknown model": (
        {"report/tables/f1": {"stage": "finetune", "columns": ["f1"], "models": ["bert"]}},
        "report.tables.f1.models:.*'bert'",
    ),
    "a table of a model that skips its stage": (
        {"report/tables/loss": {"stage": "tapt", "columns": ["loss"], "models": ["tfidf"]}},
        "report.tables.loss.models: tfidf has no run at tapt on imdb, arxiv. Leave it out",
    ),
    "a table of several stages, one of them unknown": (
        {"report/tables/f1": {"stage": ["finetune", "fine"], "columns": ["f1"]}},
        "report.tables.f1.stage:.*'fine'",
    ),
    "a table of a model that skips two of its stages": (
        {"report/tables/x": {"stage": ["finetune", "tapt", "pretrain"], "columns": ["memory"], "models": ["tfidf"]}},
        "report.tables.x.models: tfidf has no run at finetune and tapt and pretrain on imdb, arxiv,",
    ),
    "a table of stages that no model passes together": (
        {
            "models": {"tfidf": SMALL["experiment"]["models"]["tfidf"]},
            "report/tables/x": {"stage": ["finetune", "tapt"], "columns": ["memory"]},
        },
        "report.tables.x.stage:.*finetune and tapt",
    ),
    "a table of a stage that every model skips": (
        {
            "models": {"words": {"backbone": "tfidf", "skip": ["pretrain", "tapt", "finetune"]}},
            "report/tables/f1": {"stage": "finetune", "columns": ["f1"]},
        },
        "report.tables.f1.stage: no model that it shows passes finetune. Name others",
    ),
    "groups of datasets that have none": (
        {
            "datasets/arxiv/group": "pages",
            "report/tables/x": {"kind": "groups", "stage": "finetune"},
            "report/figures/y": {"kind": "group_score", "stage": "finetune"},
        },
        "report.tables.x.stage: shows groups of imdb .datasets.imdb.group., which runs of tfidf, sdpa,",
    ),
    "groups of what is not predicted": (
        {"datasets/imdb/group": "words", "report/tables/x": {"kind": "groups", "stage": "tapt"}},
        "report.tables.x.stage: shows predictions, which runs of sdpa, lsh-h2-c64, favor-m64 at tapt",
    ),
    "a table of an unknown dataset": (
        {"report/tables/f1": {"stage": "finetune", "columns": ["f1"], "datasets": ["imdb", "reuters"]}},
        "report.tables.f1.datasets:.*'reuters'. Known: imdb, arxiv",
    ),
    "token lengths of an unknown dataset": (
        {"report/tables/f1": {"kind": "token_lengths", "datasets": ["reuters"]}},
        "report.tables.f1.datasets:.*'reuters'. Known: wikipedia, imdb, arxiv",
    ),
    "a figure of unknown stages and models": (
        {
            "report/figures/x": {"kind": "score_time", "stage": "fine", "time": ["thyme"], "models": ["bert"]},
            "report/baseline": "bart",
            "report/reference": "bort",
        },
        "report.figures.x.models: there is no 'bert'. Known: tfidf, sdpa, lsh-h2-c64, favor-m64",
    ),
    "a figure of a model that skips its stage": (
        {"report/figures/x": {"kind": "score_time", "stage": "tapt", "time": ["tapt"], "models": ["sdpa", "tfidf"]}},
        "report.figures.x.models: tfidf has no run at tapt on imdb, arxiv. Leave it out",
    ),
    "classes of what is not predicted": (
        {"report/tables/x": {"kind": "classes", "stage": "tapt", "models": ["sdpa"]}},
        "report.tables.x.stage: shows predictions, which runs of sdpa at tapt lack. Leave it out, or",
    ),
    "an analysis of an unknown stage and model": (
        {"report/analyses/x": {"kind": "heads", "stage": "fine", "models": ["bert"]}},
        "(?s)analyses.x.stage:.*'fine'.*analyses.x.models:.*'bert'",
    ),
    "an analysis of which dataset": (
        {"report/analyses/x": {"kind": "heads", "stage": "tapt"}},
        "report.analyses.x.dataset: missing..*imdb, arxiv",
    ),
    "an analysis of a dataset of another stage": (
        {"report/analyses/x": {"kind": "heads", "stage": "tapt", "dataset": "wikipedia"}},
        "report.analyses.x.dataset: there is no 'wikipedia'. Known: imdb, arxiv",
    ),
    "senses without labels": (
        {"report/analyses/x": {"kind": "embeddings", "stage": "pretrain", "word": "bank"}},
        "report.analyses.x.dataset: test documents of wikipedia have no classes, which it compares.",
    ),
    "maps of what has none": (
        {"report/analyses/x": {"kind": "heads", "stage": "finetune", "dataset": "imdb", "models": ["sdpa", "tfidf"]}},
        "analyses.x.models: tfidf.*kind tfidf",
    ),
    "an analysis of a model that skips its stage": (
        {"report/analyses/x": {"kind": "gradients", "stage": "pretrain", "models": ["tfidf"]}},
        "report.analyses.x.models: tfidf has no run at pretrain on wikipedia. Leave it out",
    ),
    "a look into nothing": (
        {
            "report/analyses/x": {"kind": "gradients", "stage": "score"},
            "stages/score": {"task": {"kind": "sequence_classification"}, "data": {"imdb": {}}},
            **{f"models/{model}/skip": ["score"] for model in ("sdpa", "lsh-h2-c64", "favor-m64")},
        },
        "report.analyses.x:.*tfidf.*kind tfidf",
    ),
    "a quantised backbone whose weights were to train": (
        {
            "backbones/decoder": {"kind": "pretrained", "quantization": "nf4", "architecture": LLAMA},
            "models/decoder": {"backbone": "decoder"},
            "stages/finetune/recipe/lora": {"merge": True},
        },
        "stages.pretrain.recipe: the backbone pretrained is quantised, so that only adapters train",
    ),
    "a look at adapters alone": (
        {
            "report/analyses/x": {"kind": "heads", "stage": "finetune", "dataset": "imdb", "models": ["sdpa"]},
            "stages/finetune/recipe/lora": {"merge": False},
        },
        "report.analyses.x.models: sdpa.*finetune",
    ),
    "gradients beyond all positions": (
        {
            "report/analyses/x": {"kind": "gradients", "stage": "pretrain", "models": ["favor-m64"]},
            "backbones/encoder/position_embedding_type": "learned",
            "backbones/encoder/max_position_embeddings": 128,
        },
        "report.analyses.x.models: favor-m64 reads 128 tokens at most, but length = 256",
    ),
    "a deviation at no stage": (
        {"models/sdpa/changes": {"tune": {"recipe": {"epochs": 3}}}},
        "models.sdpa.changes: there is no 'tune'. Did you mean 'finetune'. Known: pretrain, tapt,",
    ),
    "a deviation that is no setting": (
        {"models/sdpa/changes": {"tapt": {"recipe": {"epoch": 3}, "task": {"mask_probability": 2}}}},
        "(?s)models.sdpa.changes.tapt.task.mask_probability: Input should be.*"
        "models.sdpa.changes.tapt.recipe.epoch: unknown key",
    ),
    "a deviation to what needs other labels": (
        {"models/sdpa/changes": {"finetune": {"task": {"kind": "span_detection"}}}},
        "stages.finetune.data.imdb: span_detection needs a label per span, but imdb has one per",
    ),
    "a deviation that leaves nothing to start from": (
        {"models/sdpa/changes": {"tapt": {"recipe": None}}},
        "stages.tapt.task: the backbone encoder cannot do masked_lm without a recipe .sdpa.",
    ),
    "a teacher that is no model": (
        {"models/sdpa/changes": {"finetune": {"task": {"kind": "distillation", "teacher": "nobody"}}}},
        "stages.finetune.data.imdb.task.teacher: there is no 'nobody'. Known: tfidf, sdpa, lsh-h2-c64,",
    ),
    "a teacher that skips the stage": (
        {"models/sdpa/changes": {"finetune": {"task": TAUGHT}}, "models/favor-m64/skip": ["finetune"]},
        "stages.finetune.data.imdb.task.teacher: favor-m64 does not pass finetune there .sdpa.",
    ),
    "a teacher that does not train": (
        {"models/sdpa/changes": {"finetune": {"task": {**TAUGHT, "teacher": "tfidf"}}}},
        "tfidf.*sequence_classification",
    ),
    "two models that teach each other": (
        {"stages/finetune/task": {"kind": "distillation", "teacher": "favor-m64"}},
        "favor-m64.*sequence_classification",
    ),
    "a teacher without a whole model": (
        {
            "models/sdpa/changes": {"finetune": {"task": TAUGHT}},
            "models/favor-m64/changes": {"finetune": {"recipe": {"lora": {"merge": False}}}},
        },
        "stages.finetune.data.imdb.task.teacher: favor-m64 leaves adapters without the full weights",
    ),
    "a phrase too many": (
        {
            "stages/match": {"start": "pretrain", "task": MATCHING, "data": {"imdb": {}}},
            "models/tfidf/skip": ["pretrain", "tapt", "match"],
        },
        "stages.match.task.phrases: 3",
    ),
    "phrases without weights": (
        {
            "stages/match": {"task": {**MATCHING, "phrases": ["bad", "good"]}, "data": {"imdb": {}}},
            "models/tfidf/skip": ["pretrain", "tapt", "match"],
        },
        "stages.match.data.imdb.recipe: missing, so a trained model is needed, but the weights are",
    ),
    "one phrase for both classes": (
        {
            "stages/match": {"task": {**MATCHING, "phrases": ["bad", "bad"]}, "data": {"imdb": {}}},
            "models/tfidf/skip": ["pretrain", "tapt", "match"],
        },
        "phrases = .'bad', 'bad'.",
    ),
    "an analysis with the name of a figure": (
        {
            "report/analyses/x": {"kind": "gradients", "stage": "pretrain"},
            "report/figures/x": {"kind": "score_time", "stage": "finetune", "time": ["finetune"]},
        },
        "report.analyses.x: would share files called result_x with report.figures.x. Rename one of them",
    ),
}


def load(*changes):
    """Load the small study with changes below `experiment`, or below the other section that their place names."""
    others = ("report", "execution", "experimnt")
    places = [place if place.split("/")[0] in others else f"experiment/{place}" for place, _ in changes]
    return load_study([("small.yaml", changed(SMALL, *zip(places, dict(changes).values(), strict=True)))])


def message_of(*changes):
    with pytest.raises(ConfigError) as error:
        load(*changes)
    return str(error.value)


def test_what_is_wrong_with_several_generated_corpora_comes_in_one_message():
    message = message_of(
        ("datasets/dyck", toy("brackets", 300, test=10, validation=10, pairs=5)),
        ("datasets/mirror", toy("reverse", 300, test=10, validation=10, lenght=8)),
        ("datasets/imdb/generated/generator", "reviews"),
    )
    assert all(f"datasets.{name}.generated." in message for name in ("dyck", "mirror", "imdb"))
    assert message.count("\n- ") == 3


def test_a_generated_section_that_is_not_the_source_may_be_anything():
    loaded = study(("datasets/imdb", GENERATED | {"source": "local", "local": {"files": {"train": ["x.csv"]}}}))
    assert loaded.experiment.datasets["imdb"].source == "local"
    other = {"generated": {"documents": 3, "generator": "reviews"}}
    study(("datasets/imdb", GENERATED | other | {"source": "local", "local": {"files": {"train": ["x.csv"]}}}))


def test_numbers_of_the_command_line_are_read_as_those_of_files():
    layers = read_arguments(["execution={gpus_per_run: 2, job: {gpu: 0}}", "execution={wandb: 1:30}"])
    assert layers[1] == ("--config", {"execution": {"wandb": "1:30"}})
    execution = study(layers=layers[:1]).execution
    assert (execution.gpus_per_run, execution.job.gpu) == (2, 0)


@pytest.mark.parametrize("case", [*BAD, *IDLE, *GRAPH])
def test_a_problem_is_named(case):
    changes, expected = (BAD | IDLE | GRAPH)[case]
    assert re.search(expected, message_of(*changes.items()))


@pytest.mark.parametrize("section", ["experiment", "execution"])
def test_an_empty_section_is_named(section):
    with pytest.raises(ConfigError, match=f"own.yaml: {section}: expected keys with their values.*Found None"):
        study(layers=[("own.yaml", {section: None})])


@pytest.mark.parametrize("place", ["", "experiment", "experiment/models", "experiment/stages", "report/tables"])
@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("on", "YAML reads this key as true or false, but names are texts. Put it in quotes"),
        ("1", "YAML reads this key as a number, but names are texts. Put it in quotes"),
        ("1.5", "YAML reads this key as a number, but names are texts. Put it in quotes"),
        ("~", "YAML reads this key as null, but names are texts"),
    ],
)
def test_a_key_that_is_no_text_is_named_with_its_file(place, key, message):
    wrong = read_value(f"{key}: {{}}", "own.yaml")
    for part in reversed(place.split("/")):
        wrong = {part: wrong} if part else wrong
    with pytest.raises(ConfigError) as error:
        study(layers=[("own.yaml", wrong)])
    assert re.search(rf"own.yaml: {place.replace('/', '.')}.*: {message}", str(error.value))
    assert "[key]" not in str(error.value)


def test_adapters_in_a_layer_that_no_model_has_are_refused_once_per_backbone():
    one, other = message_of((LORA, {"targets": ["query", "q_proj"]})).split("\n- ")[1:]
    assert (
        "stages.pretrain.recipe.lora: the backbone encoder has no linear layer q_proj for targets, "
        "but intermediate, key, output, query, value (sdpa, favor-m64)"
    ) in one
    assert "no linear layer q_proj for targets, but intermediate, output, query, value (lsh-h2-c64)" in other


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_field_draws_no_other_problems_after_it(case):
    changes, _ = BAD[case]
    problems = message_of(*changes.items()).split("\n- ")[1:]
    assert len(problems) == 1, problems


ROUNDS = {
    "fields": {
        "experiment.seeds: ": ("seeds", "many"),
        "execution.gpu: unknown key": ("execution/gpu", 1),
        "experiment.mechanisms.favor-m128.nb_features": (
            "mechanisms/favor-m128",
            {"kind": "favor", "nb_features": "all"},
        ),
        "experiment.models.first.changes.tapt": ("models/first", {"backbone": "encoder", "changes": {"tapt": "sdpa"}}),
        "experiment.stages.pretrain.recipe.batch_size": ("stages/pretrain/recipe/batch_size", 0),
        "report.analyses.wrong.documents": (
            "report/analyses/wrong",
            {"kind": "heads", "stage": "tapt", "documents": 0},
        ),
    },
    "names": {
        "mechanisms.lsh-h2-c64: the parameters spell": ("mechanisms/lsh-h2-c64/chunk_size", 32),
        "stages.unknown.start: there is no 'nowhere'": ("stages/unknown", MASKED | {"start": "nowhere"}),
        "stages.pretrain.data.wikipedia.start: there is no 'imdb'": (
            "stages/pretrain/data/wikipedia",
            {"start": "imdb"},
        ),
        " needs a": ("stages/a", MASKED | {"start": "b"}),
        "": ("stages/b", MASKED | {"start": "a"}),
        "models.nobody.backbone: there is no 'nobody'": ("models/nobody", {"backbone": "nobody"}),
        "tables.f1.stage: there is no 'fine'": ("report/tables/f1", {"stage": "fine", "columns": ["f1"]}),
        "analyses.x.dataset: missing. Name one of: imdb, arxiv": (
            "report/analyses/x",
            {"kind": "heads", "stage": "tapt"},
        ),
    },
    "what runs are derived from": {
        "models.skipping: skips pretrain, from which tapt": (
            "models/skipping",
            {"backbone": "encoder", "mechanism": "sdpa", "skip": ["pretrain"]},
        ),
        "models.sdpa.tokenizer: missing, and wikipedia names none either. Name one of: wordpiece, other": (
            "tokenizers/other",
            {"source": "trained", "corpus": "imdb"},
        ),
        "models.loud: attention_dropout = 0.5, but favor-m64 has": (
            "models/loud",
            {"backbone": "encoder", "mechanism": "favor-m64", "changes": {"tapt": {"backbone": "dropping"}}},
        ),
        "": ("backbones/dropping", ENCODER | {"attention_dropout": 0.5}),
    },
    "what does not fit": {
        "stages.pretrain.task: the backbone tfidf cannot do masked_lm": ("models/idle", {"backbone": "tfidf"}),
        "stages.tapt.data.imdb: from pretrain to tapt, lsh-h2-c64 cannot take over": (
            "models/swap",
            {"backbone": "encoder", "mechanism": "sdpa", "changes": {"tapt": {"mechanism": "lsh-h2-c64"}}},
        ),
        "stages.finetune.data.wikipedia: sequence_classification needs labels": (
            "stages/finetune/data/wikipedia",
            {"start": "imdb"},
        ),
        "stages.bare.task: the backbone encoder cannot do": (
            "stages/bare",
            {"task": {"kind": "masked_lm"}, "data": {"imdb": {}}},
        ),
        "backbones.short: reads 64 tokens at most, but arxiv has max_tokens = 128": (
            "backbones/short",
            ENCODER | {"position_embedding_type": "learned", "max_position_embeddings": 64},
        ),
        "": ("models/short", {"backbone": "short", "mechanism": "sdpa"}),
        "tables.loss.models: tfidf has no run at tapt": (
            "report/tables/loss",
            {"stage": "tapt", "columns": ["loss"], "models": ["tfidf"]},
        ),
    },
}
"""What a study is checked for, one after the other: each follows what the one before has found to be right."""


@pytest.mark.parametrize("number", range(len(ROUNDS)), ids=ROUNDS)
def test_all_problems_of_a_round_come_in_one_message(number):
    now, *later = list(ROUNDS.values())[number:]
    message = message_of(*now.values(), *(change for each in later for change in each.values()))
    assert [expected for expected in now if expected not in message] == [], message
    assert [expected for each in later for expected in each if expected and expected in message] == [], message


def test_printed_values_need_the_study_that_printed_them():
    table = ("report/tables/published", {"kind": "published", "stages": ["pretrain"]})
    assert "report.tables.published: shows printed values, but report.published is null" in message_of(table)
    printed = [("report/published", "grid"), ("report/reference", "sdpa")]
    load(table, *printed)


def test_a_comparison_needs_a_reference_that_passes_its_stages():
    table = ("report/tables/f1", {"stage": "tapt", "columns": ["loss"], "against": ["reference"]})
    assert "report.tables.f1: compares models, but report.reference is null" in message_of(table)
    skips = "report.tables.f1: compares models with tfidf, without a run at tapt on imdb, arxiv. Name others"
    assert skips in message_of(table, ("report/reference", "tfidf"))
    load(table, ("report/reference", "sdpa"))


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "answer", "stage": "finetune"},
        {"kind": "significance", "stage": "finetune"},
    ],
)
def test_a_comparison_without_another_model_is_refused_before_any_run(settings):
    """Neither if it is left alone, nor if the other one has no dataset in common with it."""
    reference, alone = ("report/reference", "sdpa"), ("report/tables/x", settings | {"models": ["sdpa"]})
    refused = "report.tables.x: compares no models with different runs on the same dataset"
    assert refused in message_of(reference, alone)
    load(reference, ("report/tables/x", settings))
    apart = [("models/sdpa/datasets", ["imdb"]), ("models/lsh-h2-c64/datasets", ["arxiv"])]
    pair = ("report/tables/x", settings | {"pairs": [["lsh-h2-c64", "sdpa"]]})
    assert refused in message_of(reference, pair, *apart)
    load(reference, pair)


def test_a_model_that_is_wrong_itself_is_not_said_to_hide_its_inside():
    changes = [
        ("report/analyses/x", {"kind": "heads", "stage": "finetune", "dataset": "imdb"}),
        ("backbones/encoder/num_hidden_layers", 0),
    ]
    problems = message_of(*changes).split("\n- ")[1:]
    assert len(problems) == 1, problems


def test_a_wrong_field_is_not_taken_for_a_missing_entry():
    """Whoever names an entry that is wrong itself is not told that there is none."""
    message = message_of(
        ("mechanisms/favor-m128", {"kind": "favor", "nb_features": "all"}),
        ("backbones/other", {"kind": "encoder", "hiden_size": 1}),
        ("models/x", {"backbone": "other", "mechanism": "favor-m128"}),
    )
    assert "there is no" not in message
    assert "BaseSettings" not in message


def test_a_model_from_scratch_may_skip_what_later_stages_start_from():
    graph = study(("models/sdpa/skip", ["pretrain"]), ("models/sdpa/start", "scratch")).graph
    assert graph.stages_of("sdpa") == ["tapt", "finetune"]
    assert graph.parent_stage("sdpa", "tapt") is None
    assert graph.parent_stage("sdpa", "finetune") == "tapt"


def test_a_model_may_skip_a_stage_between_two_others():
    graph = study(("models/sdpa/skip", ["tapt"])).graph
    assert graph.parent_stage("sdpa", "finetune") == "pretrain"
    assert graph.parent_dataset("finetune", "pretrain", "imdb") == "wikipedia"


def test_the_start_that_an_entry_names_is_one_of_the_stage_that_its_stage_starts_from():
    made = study(("stages/finetune/data", {"imdb": {"start": "arxiv"}}), ("models/skipping", SDPA | {"skip": ["tapt"]}))
    parents = {run.id.model: run.parent for run in made.runs if run.id.stage == "finetune" and run.id.seed == 1}
    assert parents["sdpa"][:3] == ("tapt", "sdpa", "arxiv")
    assert parents["skipping"][:3] == ("pretrain", "sdpa", "wikipedia")
    origins = made.graph.origins("skipping", "finetune", "imdb")
    assert {stage: origin.dataset for stage, origin in origins.items()} == {"pretrain": "wikipedia"}
    assert made.graph.parent_dataset("finetune", "tapt", "imdb") == "arxiv"


def test_a_mechanism_changed_at_a_stage_that_is_skipped_holds_for_those_that_start_from_it():
    graph = study(("models/sdpa", SDPA | {"skip": ["tapt"], "changes": {"tapt": {"mechanism": "favor-m64"}}})).graph
    kinds = [graph.backbone_at("sdpa", stage, None).mechanism.kind for stage in graph.stages_of("sdpa")]
    assert kinds == ["sdpa", "favor"]


def sections_of(settings):
    """Return the sections that settings of a recipe may hold: their names and classes."""
    kinds = {name: typing.get_args(field.annotation) for name, field in settings.model_fields.items()}
    return {
        name: kind
        for name, choices in kinds.items()
        for kind in choices
        if isinstance(kind, type) and issubclass(kind, BaseSettings)
    }


OTHER_VALUES = {"lora": {"r": 4, "alpha": 9, "dropout": 0.25, "targets": ["query"], "merge": False}}
"""Another value than the default of each field of each section of a recipe."""


@pytest.mark.parametrize("section", sections_of(Recipe))
def test_an_entry_or_a_change_that_sets_one_field_of_a_section_keeps_the_others(section):
    """As a file does that extends another one."""
    others, stage = OTHER_VALUES[section], "stages/finetune"
    fields = sections_of(Recipe)[section].model_fields
    assert set(others) == set(fields)
    for name, value in others.items():
        shared = {other: given for other, given in others.items() if other != name}
        assert fields[name].default != value
        common = [(f"{stage}/recipe/{section}", shared), (f"{stage}/data", {"imdb": {}})]
        one = {section: {name: value}}
        layer = {"experiment": {"stages": {"finetune": {"recipe": one}}}}
        made = {
            "entry": study(*common, (f"{stage}/data/imdb/recipe", one)),
            "change": study(*common, ("models/sdpa/changes", {"finetune": {"recipe": one}})),
            "file": study(*common, layers=[("above.yaml", layer)]),
        }
        for place, found in made.items():
            laid = getattr(found.graph.work("sdpa", "finetune", "imdb").recipe, section)
            assert laid.model_dump() == others, (place, name)
        without = study(*common, ("models/sdpa/changes", {"finetune": {"recipe": {section: None}}}))
        assert getattr(without.graph.work("sdpa", "finetune", "imdb").recipe, section) is None


@pytest.mark.parametrize(
    ("entries", "before"),
    [(["imdb", "arxiv"], "arxiv"), (["imdb"], "imdb"), (["wikipedia"], "wikipedia")],
)
def test_a_model_that_skips_a_stage_starts_from_the_named_entry_if_there_is_one(entries, before):
    graph = study(
        ("stages/pretrain/data", {entry: {} for entry in entries}),
        ("stages/finetune/data", {"imdb": {"start": "arxiv"}}),
        ("models/skipping", SDPA | {"skip": ["tapt"]}),
    ).graph
    assert graph.parent_dataset("finetune", "tapt", "imdb") == "arxiv"
    assert graph.parent_dataset("finetune", "pretrain", "imdb") == before


def test_a_model_that_skips_the_stage_of_a_named_start_hears_what_it_lacks():
    corpus = study().experiment.corpora["wikipedia"].model_dump(mode="json", exclude_unset=True)
    message = message_of(
        ("corpora/more", corpus),
        ("tokenizers/wordpiece/corpus", "wikipedia"),
        ("stages/pretrain/data/more", {}),
        ("stages/finetune/data", {"imdb": {"start": "arxiv"}}),
        ("models/skipping", SDPA | {"skip": ["tapt"]}),
    )
    assert (
        "stages.finetune.data.imdb: skipping starts from pretrain, which has several entries and none for imdb: "
        "wikipedia, more. Let skipping pass tapt, or add imdb to pretrain"
    ) in message


def test_labels_may_be_numbered():
    made = study(("datasets/imdb/labels", {"prefix": "v", "count": 3}))
    assert made.experiment.datasets["imdb"].labels == ["v0", "v1", "v2"]
    assert made.experiment.datasets["imdb"].preparation.labels == ["v0", "v1", "v2"]


def test_a_model_may_change_its_mechanism_where_weights_fit():
    graph = study(("models/sdpa/changes", {"tapt": {"mechanism": "favor-m64"}})).graph
    kinds = [graph.backbone_at("sdpa", stage, "imdb").mechanism.kind for stage in graph.experiment.stages]
    assert kinds == ["sdpa", "favor", "favor"]


@pytest.mark.parametrize(
    "change",
    [
        ("models/sdpa", SDPA),
        ("models/sdpa", SDPA | {"changes": {"probe": {"mechanism": "favor-m64"}}}),
        ("models/sdpa", SDPA | {"changes": {"probe": {"backbone": "turned"}}}),
        ("models/sdpa", SDPA | {"skip": ["pretrain", "tapt", "finetune"], "start": {"folder": "elsewhere/model"}}),
        ("stages/probe/data/arxiv", {"recipe": RECIPE}),
    ],
    ids=["as it is", "another mechanism", "other positions", "from elsewhere", "trained on other data"],
)
def test_a_trained_model_may_be_evaluated_as_it_is(change):
    skip = ["pretrain", "tapt", "probe"]
    turned = SMALL["experiment"]["backbones"]["encoder"] | {"rope_scale": 0.5}
    changes = [("stages/probe", PROBE), ("models/tfidf/skip", skip), ("backbones/turned", turned), change]
    graph = study(*changes).graph
    assert not graph.trains("sdpa", "probe", "imdb")
    assert graph.splits("sdpa", "probe", "imdb") == ("validation", "test")
    assert graph.splits("tfidf", "finetune", "imdb") == ("train", "validation", "test")


def test_a_model_may_deviate_at_a_stage_and_there_alone():
    deviations = {"tapt": {"recipe": {"batch_size": 4}}, "finetune": {"task": {"classifier_head": "none"}}}
    graph = study(("models/sdpa/changes", deviations)).graph
    adapted, tuned = (graph.work("sdpa", stage, "imdb") for stage in ("tapt", "finetune"))
    others = [graph.work("favor-m64", stage, "imdb") for stage in ("tapt", "finetune")]
    assert (adapted.recipe.batch_size, adapted.recipe.epochs) == (4, RECIPE["epochs"])
    assert (tuned.recipe, tuned.task.classifier_head) == (others[1].recipe, "none")
    assert [(work.recipe.batch_size, work.task.kind) for work in others] == [(8, "masked_lm"), (8, KIND)]
    assert others[1].task.classifier_head == "bert"


def test_a_model_may_do_another_task_than_the_others_and_without_training():
    matching = {"task": {"kind": "label_matching", "phrases": ["This is bad.", "This is good."]}, "recipe": None}
    graph = study(
        ("stages/finetune/task/classifier_head", "none"), ("models/sdpa/changes", {"finetune": matching})
    ).graph
    assert graph.work("sdpa", "finetune", "imdb").task.phrases == ["This is bad.", "This is good."]
    assert [graph.trains(model, "finetune", "imdb") for model in ("sdpa", "favor-m64")] == [False, True]
    assert graph.splits("sdpa", "finetune", "imdb") == ("validation", "test")


def test_models_that_deviate_share_no_runs_from_there_on():
    same = {"backbone": "encoder", "mechanism": "sdpa"}
    deviating = same | {"changes": {"tapt": {"recipe": {"epochs": 3}}}}
    graph = study(("models/same", same), ("models/deviating", deviating)).graph
    owners = [
        [graph.owner(name, stage, next(iter(section.data))) for stage, section in graph.experiment.stages.items()]
        for name in ("same", "deviating")
    ]
    assert owners == [["sdpa"] * 3, ["sdpa", "deviating", "deviating"]]


def test_models_of_all_backbones_pass_the_same_stages():
    lstm = {"kind": "recurrent", "cell": "lstm", "hidden_size": 64}
    graph = study(("backbones/lstm", lstm), ("models/lstm", {"backbone": "lstm"})).graph
    assert graph.stages_of("lstm") == ["pretrain", "tapt", "finetune"]
    assert all(graph.trains("lstm", stage, "imdb") for stage in ("tapt", "finetune"))
    with pytest.raises(ConfigError, match="models.lstm.mechanism: its backbone lstm takes none"):
        study(("backbones/lstm", lstm), ("models/lstm", {"backbone": "lstm", "mechanism": "sdpa"}))
    swapped = {"backbone": "lstm", "changes": {"tapt": {"backbone": "encoder", "mechanism": "sdpa"}}}
    with pytest.raises(ConfigError, match="from pretrain to tapt, a backbone of kind encoder cannot take over weights"):
        study(("backbones/lstm", lstm), ("models/lstm", swapped))


def test_a_recurrent_model_has_no_attention_maps():
    lstm = [("backbones/lstm", {"kind": "recurrent", "cell": "lstm"}), ("models/lstm", {"backbone": "lstm"})]
    for kind in ("attention_maps", "heads"):
        maps = {"kind": kind, "stage": "pretrain", "models": ["sdpa", "lstm"]}
        with pytest.raises(ConfigError, match="analyses.x.models: .*lstm.*attention maps"):
            study(*lstm, layers=[("report.yaml", {"report": {"analyses": {"x": maps}}})])


def test_all_models_of_a_chain_read_by_one_tokeniser():
    own = [("tokenizers/own", {"source": "trained", "corpus": "imdb"}), ("corpora/wikipedia/tokenizer", "wordpiece")]
    datasets = [("datasets/imdb/tokenizer", "own"), ("datasets/arxiv/tokenizer", "own")]
    found = (
        "stages.tapt.data.imdb: reads by the tokeniser own, but starts from pretrain on wikipedia, read by wordpiece"
    )
    with pytest.raises(ConfigError, match=found):
        study(*own, *datasets)
    alone = [("models/sdpa/tokenizer", "own"), ("models/lsh-h2-c64", DELETE), ("models/favor-m64", DELETE)]
    assert study(*own, *datasets, *alone).graph.tokenizer_of("sdpa", "wikipedia") == "own"
    with pytest.raises(ConfigError, match="datasets.imdb.tokenizer:.*'other'"):
        study(("datasets/imdb/tokenizer", "other"))


def test_a_model_that_reads_texts_needs_no_tokenizer():
    only = [(f"models/{name}", DELETE) for name in ("sdpa", "lsh-h2-c64", "favor-m64")]
    stages = [("stages/pretrain", DELETE), ("stages/tapt", DELETE), ("stages/finetune/start", DELETE)]
    graph = study(*only, *stages, ("models/tfidf/skip", DELETE), ("tokenizers", {})).graph
    assert not graph.reads_tokens("tfidf", "finetune", "imdb")


def test_what_may_move_can_be_accepted():
    hub = {"repository": "a/b", "revision": "main", "unpinned": True, "files": {"train": ["x.csv"]}}
    url = {"files": {"train": [{"url": "https://a.org/x.csv", "unpinned": True}]}}
    tokenizer = {"source": "hub", "unpinned": True}
    study(("datasets/imdb/hub", hub), ("datasets/arxiv/url", url), ("tokenizers/wordpiece", tokenizer))


def test_idle_settings_are_fine_where_they_are_read():
    study(
        ("mechanisms/favor-m64/phi", "relu"),
        ("mechanisms/favor-m64/redraw_interval", 10),
        ("backbones/encoder/rope_theta", 5.0),
        ("backbones/encoder/rope_type", "yarn"),
        ("backbones/encoder/rope_factor", 4.0),
        ("backbones/encoder/rope_original_length", 64),
        ("stages/finetune/recipe/freeze_layers", 1),
        ("stages/finetune/recipe/freeze_epochs", 1),
        ("stages/finetune/task/classifier_pooling", "mean_step"),
        ("stages/finetune/task/pooling_step", 4),
    )
    study(
        ("backbones/encoder/position_embedding_type", "learned"),
        ("backbones/encoder/max_position_embeddings", 128),
        ("datasets/imdb/max_tokens", 128),
    )


def test_a_task_of_spans_on_labelled_spans():
    """Tasks without labels read the windows as any text; two baselines need no training."""
    graph = study(
        *SPANS.items(),
        ("backbones/words", {"kind": "tfidf_spans"}),
        ("backbones/all", {"kind": "everything"}),
        *((f"models/{name}", {"backbone": name, "skip": ["pretrain", "tapt"]}) for name in ("words", "all")),
        ("datasets/imdb/window_stride", 64),
        ("datasets/imdb/split", {"folds": {"file": "folds.csv", "validation": 4, "test": 3}}),
    ).graph
    work = graph.experiment.stages["finetune"].data["imdb"]
    assert (work.task.label_per, work.task.threshold, work.keep) == ("span", "search", ["best"])
    assert [graph.trains(name, "finetune", "imdb") for name in ("sdpa", "words", "all")] == [True, False, False]
    assert (graph.experiment.datasets["imdb"].window_stride, graph.experiment.datasets["arxiv"].window_stride) == (
        64,
        0.5,
    )


def test_a_task_of_words_on_labelled_words():
    """Tasks without labels read them as any text."""
    experiment = study(
        ("models/tfidf", DELETE),
        *((f"datasets/{name}/label_per", "word") for name in ("imdb", "arxiv")),
        ("stages/finetune/task", {"kind": "token_classification", "classifier_dropout": 0.0}),
        ("tokenizers/wordpiece", {"source": "trained", "algorithm": "words", "enclose": False}),
    ).experiment
    work = experiment.stages["finetune"].data["imdb"]
    assert (work.task.label_per, work.keep) == ("word", ["best"])
    assert experiment.stages["tapt"].data["imdb"].task.kind == "masked_lm"


def test_how_often_a_token_must_occur_follows_from_the_algorithm_unless_it_is_said():
    for options, expected in (({}, 2), ({"algorithm": "words"}, 1), ({"algorithm": "words", "min_frequency": 3}, 3)):
        tokenizers = study(("tokenizers/wordpiece", {"source": "trained"} | options)).experiment.tokenizers
        assert tokenizers["wordpiece"].occurrences == expected


def test_learned_positions_reach_as_far_as_a_models_own_data():
    """What no stage of the model reads may be longer."""
    learned = ENCODER | {"position_embedding_type": "learned", "max_position_embeddings": 128}
    study(
        ("backbones/encoder", learned),
        ("datasets/long", SMALL["experiment"]["datasets"]["imdb"] | {"max_tokens": 4096}),
    )


def test_a_mechanism_may_carry_a_suffix():
    masked = {"kind": "lsh", "num_hashes": 2, "chunk_size": 64, "mask_within_chunks": True}
    model = {"backbone": "encoder", "mechanism": "lsh-h2-c64-masked"}
    graph = study(("mechanisms/lsh-h2-c64-masked", masked), ("models/masked", model)).graph
    assert graph.backbone_at("masked", "pretrain", "wikipedia").mechanism.mask_within_chunks
    assert not graph.backbone_at("lsh-h2-c64", "pretrain", "wikipedia").mechanism.mask_within_chunks


def test_an_entry_of_a_stage_lies_over_what_entries_share():
    experiment = study(
        ("stages/finetune/task/classifier_dropout", 0.3),
        ("stages/finetune/data/arxiv", {"task": {"classifier_pooling": "cls"}, "recipe": {"epochs": 9}}),
        ("stages/finetune/data/imdb", {}),
    ).experiment
    imdb, arxiv = (experiment.stages["finetune"].data[name] for name in ("imdb", "arxiv"))
    assert (imdb.task.classifier_pooling, imdb.task.classifier_dropout, imdb.recipe.epochs) == ("mean", 0.3, 2)
    assert (arxiv.task.classifier_pooling, arxiv.task.classifier_dropout, arxiv.recipe.epochs) == ("cls", 0.3, 9)


def test_what_is_kept_follows_from_the_task_unless_the_recipe_says():
    experiment = study(("stages/finetune/data/imdb", {"recipe": {"keep": ["last", "state"]}})).experiment
    assert experiment.stages["pretrain"].data["wikipedia"].keep == ["last"]
    assert experiment.stages["finetune"].data["arxiv"].keep == ["best"]
    assert experiment.stages["finetune"].data["imdb"].keep == ["last", "state"]


def test_a_study_read_from_its_own_dump_is_the_same():
    first = study(("models/sdpa/start", {"folder": "somewhere/model"}))
    assert type(first).model_validate(first.model_dump(mode="json")) == first


def test_every_kind_has_parameters_that_say_its_name():
    for axis in (BACKBONES, TASKS):
        assert axis.kinds()
        for kind in axis.kinds():
            assert axis.settings(kind).model_fields["kind"].annotation.__args__ == (kind,)


def test_settings_lie_over_one_another_before_they_are_checked(repository):
    values = merged(read_layers([repository / "config/demo.yaml"]))
    assert "extends" not in values
    assert yaml.safe_load(yaml.safe_dump(values)) == values


def test_the_reference_is_up_to_date(repository):
    assert (repository / "config/README.md").read_text() == config_readme(), (
        "run: python scripts/tools/config_reference.py"
    )
    assert (repository / "config/schema.json").read_text() == config_schema(), (
        "run: python scripts/tools/config_reference.py"
    )
    json.loads(config_schema())

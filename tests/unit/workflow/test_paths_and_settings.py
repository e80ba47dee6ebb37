"""The plan: from a study to runs, what each starts from and reads, and the settings that decide whether it is stale."""

import json
import re
import runpy

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_plans import analyses, key, plan, records, reported
from small_studies import DELETE, SMALL, study
from transformers import AutoTokenizer

from lib.analysis.settings import ANALYSES, computation
from lib.core import extensions
from lib.core.errors import ConfigError, DataError
from lib.core.record import RunId
from lib.results.scope import scope as read_scope
from lib.results.settings import FIGURES, TABLES
from lib.study.configuration import load_study, read_layers
from lib.study.run import RunSettings
from lib.study.runs import as_json
from lib.tokens.sentinels import sentinel_ids
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_byte_pairs
from lib.workflow.planning.corpora import download_options
from lib.workflow.planning.plan import Plan
from lib.workflow.planning.resources import SHORTEST_MINUTES
from lib.workflow.staleness.digests import reached

FIRST = "results/runs"
STAGES = ("pretrain", "tapt", "finetune")


def runs_of(made, stage):
    return [(run.id.model, run.id.dataset, run.id.seed) for run in made.runs if run.id.stage == stage]


def test_there_is_one_run_per_stage_model_data_and_seed():
    made = plan()
    trained = ("sdpa", "lsh-h2-c64", "favor-m64")
    assert runs_of(made, "pretrain") == [(model, "wikipedia", seed) for model in trained for seed in (1, 2)]
    assert len(runs_of(made, "tapt")) == 3 * 2 * 2
    assert len(runs_of(made, "finetune")) == 4 * 2 * 2
    assert len({run.id for run in made.runs}) == len(made.runs)
    assert made.run(key("finetune", "sdpa")).trains
    assert not made.run(key("finetune", "tfidf")).trains
    assert [made.run(key(stage, "sdpa")).work.task.predicts for stage in STAGES] == [False, False, True]


def test_the_grid_has_the_runs_of_the_study(repository):
    made = Plan(load_study(read_layers([repository / "config/config.yaml"])))
    assert {stage: len(runs_of(made, stage)) for stage in STAGES} == {"pretrain": 9, "tapt": 27, "finetune": 30}
    assert made.run(RunId("finetune", "favor-m64", "arxiv", 420)).parent == RunId("tapt", "favor-m64", "arxiv", 420)
    assert made.run(RunId("tapt", "favor-m64", "arxiv", 420)).parent == RunId("pretrain", "favor-m64", "wikipedia", 420)


def test_a_run_starts_from_the_run_before_it():
    made = plan()
    assert made.start(made.run(key("finetune", "sdpa", "arxiv", 2))) == [f"{FIRST}/tapt/sdpa/arxiv/seed-2/model"]
    assert made.start(made.run(key("tapt", "sdpa", "arxiv", 2))) == [f"{FIRST}/pretrain/sdpa/wikipedia/seed-2/model"]
    assert made.start(made.run(key("pretrain", "sdpa"))) == []
    assert made.start(made.run(key("finetune", "tfidf"))) == []


def test_a_rule_waits_for_the_record_of_a_run_whose_model_it_reads():
    made = plan()
    model = made.paths.model(key("pretrain", "sdpa"))
    assert made.inputs_of([model]) == [made.paths.record(key("pretrain", "sdpa"))]
    others = [
        "elsewhere/model",
        "results/runs/pretrain/sdpa/other/seed-1/model",
        made.paths.tokenizer("wordpiece"),
        made.paths.word_vectors("vectors", "seed-1"),
        made.paths.downloads("models", "owner/name", "main"),
    ]
    assert made.inputs_of(others) == others


def test_a_rule_waits_for_the_files_of_a_folder_that_no_rule_makes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = plan()
    files = {
        "model": ["config.json", "model.safetensors", "README.md", ".cache/lock", "checkpoint-5/model.safetensors"],
        "wordnet": ["README", "dict/data.noun", "dict/index.noun"],
        "empty": ["README.md"],
        made.paths.tokenizer("wordpiece"): ["tokenizer.json"],
        made.paths.downloads("models", "owner/name", "main"): ["config.json"],
    }
    for folder, names in files.items():
        for name in names:
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    assert made.inputs_of(files) == [
        "model/config.json",
        "model/model.safetensors",
        "wordnet/README",
        "wordnet/dict/data.noun",
        "wordnet/dict/index.noun",
        "empty",
        made.paths.tokenizer("wordpiece"),
        made.paths.downloads("models", "owner/name", "main"),
    ]


def test_a_run_is_found_by_the_path_that_a_rule_makes():
    made = plan()
    assert made.run_at("tapt/sdpa/imdb/seed-2") is made.run(key("tapt", "sdpa", seed=2))
    with pytest.raises(ConfigError, match="tapt/sdpa/imdb/seed-3: no run of this study"):
        made.run_at("tapt/sdpa/imdb/seed-3")


def test_a_skipped_stage_is_passed_over():
    made = plan(("models/sdpa/skip", ["tapt"]))
    assert made.start(made.run(key("finetune", "sdpa"))) == [f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"]
    assert not [run for run in made.runs if run.id.model == "sdpa" and run.id.stage == "tapt"]


def test_a_model_from_scratch_starts_from_nothing():
    made = plan(("models/sdpa/skip", ["pretrain"]), ("models/sdpa/start", "scratch"))
    assert made.start(made.run(key("tapt", "sdpa"))) == []
    assert made.start(made.run(key("finetune", "sdpa"))) == [f"{FIRST}/tapt/sdpa/imdb/seed-1/model"]


SWAP = ("models/swap", {"backbone": "encoder", "mechanism": "sdpa", "changes": {"tapt": {"mechanism": "favor-m64"}}})


def test_models_share_the_runs_up_to_which_they_are_the_same():
    made = plan(SWAP)
    assert made.graph.owners("pretrain", "wikipedia") == ["sdpa", "lsh-h2-c64", "favor-m64"]
    assert made.graph.owners("tapt", "imdb") == ["sdpa", "lsh-h2-c64", "favor-m64", "swap"]
    assert made.start(made.run(key("tapt", "swap"))) == [f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"]
    assert made.start(made.run(key("finetune", "swap"))) == [f"{FIRST}/tapt/swap/imdb/seed-1/model"]
    assert json.loads(made.run(key("tapt", "swap")).settings)["backbone"]["mechanism"]["kind"] == "favor"


def test_the_first_model_of_the_study_owns_what_is_shared():
    """A change before the others' place in the list moves the run, and nothing else does."""
    late = plan(SWAP).study.model_dump(mode="json")
    models = late["experiment"]["models"]
    late["experiment"]["models"] = {"swap": models.pop("swap"), **models}
    made = Plan(load_study([("late.yaml", late)]))
    assert made.graph.owners("pretrain", "wikipedia") == ["swap", "lsh-h2-c64", "favor-m64"]
    assert made.start(made.run(key("tapt", "sdpa"))) == [f"{FIRST}/pretrain/swap/wikipedia/seed-1/model"]


def test_a_table_of_a_shared_stage_has_the_rows_that_there_are():
    table = {"stage": "pretrain", "columns": ["loss"], "models": ["favor-m64", "swap", "sdpa"]}
    shared = Plan(study(SWAP, layers=[("report.yaml", {"report": {"tables": {"loss": table}}})]))
    assert shared.report.tables["loss"]["scope"]["models"] == ["favor-m64", "sdpa"]
    files = shared.report.inputs(shared.report.tables["loss"]["scope"])
    assert sorted(files) == sorted(
        f"{FIRST}/pretrain/{model}/wikipedia/seed-{seed}/run.json" for model in ("favor-m64", "sdpa") for seed in (1, 2)
    )


def test_a_table_of_several_stages_finds_the_runs_of_each_model_at_each_stage():
    """Models that share their runs at all of its stages are one row, by the name of the first."""
    twin = ("models/twin", {"backbone": "encoder", "mechanism": "sdpa"})
    table = {"stage": ["tapt", "pretrain"], "columns": ["loss"], "models": ["swap", "twin", "favor-m64"]}
    made = Plan(study(SWAP, twin, layers=[("report.yaml", {"report": {"tables": {"loss": table}}})]))
    assert made.report.tables["loss"]["settings"] == table | {"kind": "stage", "datasets": None, "against": []}
    shown = made.report.tables["loss"]["scope"]
    assert shown["models"] == ["swap", "sdpa", "favor-m64"]
    assert shown["stages"] == [["tapt", ["imdb", "arxiv"]], ["pretrain", ["wikipedia"]]]
    assert shown["owners"] == {
        "tapt": {model: dict.fromkeys(["imdb", "arxiv"], model) for model in ("swap", "sdpa", "favor-m64")},
        "pretrain": {"swap": {"wikipedia": "sdpa"}, **{model: {"wikipedia": model} for model in ("sdpa", "favor-m64")}},
    }
    files = [f"{FIRST}/pretrain/{model}/wikipedia/seed-1/run.json" for model in ("sdpa", "favor-m64")]
    files += [
        f"{FIRST}/tapt/{model}/{dataset}/seed-1/run.json"
        for model in ("sdpa", "favor-m64", "swap")
        for dataset in ("imdb", "arxiv")
    ]
    assert [file for file in made.report.inputs(made.report.tables["loss"]["scope"]) if "seed-1" in file] == files


def test_rows_of_several_stages_are_the_models_that_pass_them_all():
    table = {"stage": ["finetune", "tapt"], "columns": ["memory"]}
    skips = ("models/favor-m64/skip", ["tapt"])
    made = Plan(study(skips, layers=[("report.yaml", {"report": {"tables": {"memory": table}}})]))
    assert made.report.tables["memory"]["scope"]["models"] == ["sdpa", "lsh-h2-c64"]


@pytest.mark.parametrize(
    "difference",
    [
        {"start": "scratch"},
        {"start": {"folder": "elsewhere/model"}},
        {"tokenizer": "other"},
        {"mechanism": "favor-m64"},
        {"backbone": "wide"},
    ],
    ids=lambda difference: next(iter(difference)),
)
def test_models_that_differ_in_anything_share_nothing(difference):
    made = plan(
        ("tokenizers/other", {"source": "local", "path": "vocab.txt"}),
        ("backbones/wide", SMALL["experiment"]["backbones"]["encoder"] | {"intermediate_size": 64}),
        *((f"models/{name}/tokenizer", "wordpiece") for name in ("sdpa", "lsh-h2-c64", "favor-m64")),
        ("models/twin", {"backbone": "encoder", "mechanism": "sdpa", "tokenizer": "wordpiece"}),
        ("models/near", {"backbone": "encoder", "mechanism": "sdpa", "tokenizer": "wordpiece", **difference}),
        ("models/favor-m64", {"backbone": "encoder", "mechanism": "lsh-h2-c64", "tokenizer": "wordpiece"}),
    )
    for stage in STAGES:
        dataset = "wikipedia" if stage == "pretrain" else "imdb"
        assert "twin" not in made.graph.owners(stage, dataset)
        assert "near" in made.graph.owners(stage, dataset)


def test_a_model_that_skips_a_stage_shares_what_comes_before_it_only():
    made = plan(("models/direct", {"backbone": "encoder", "mechanism": "sdpa", "skip": ["tapt"]}))
    assert "direct" not in made.graph.owners("pretrain", "wikipedia")
    assert "direct" in made.graph.owners("finetune", "imdb")
    assert made.start(made.run(key("finetune", "direct"))) == [f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"]


def test_a_model_may_start_from_the_run_of_another_study():
    folder = "results/runs/pretrain/favor-m256/wikipedia/seed-420/model"
    made = plan(("models/favor-m64/skip", ["pretrain"]), ("models/favor-m64/start", {"folder": folder}))
    assert made.start(made.run(key("tapt", "favor-m64", "arxiv", 2))) == [folder]
    assert made.start(made.run(key("finetune", "favor-m64"))) == [f"{FIRST}/tapt/favor-m64/imdb/seed-1/model"]


def test_a_model_may_start_from_a_hub_repository():
    start = {"repository": "owner/name", "revision": "0" * 40}
    made = plan(("models/sdpa/start", start))
    assert made.start(made.run(key("pretrain", "sdpa"))) == [f"resources/models/owner/name/{'0' * 40}"]
    assert made.start(made.run(key("tapt", "sdpa"))) == [f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"]


def test_a_run_reads_the_splits_of_its_task():
    made = plan()
    tokens = "results/data/imdb/tokens/wordpiece"
    assert made.data(made.run(key("tapt", "sdpa"))) == {split: f"{tokens}/{split}" for split in ("train", "validation")}
    splits = ("train", "validation", "test")
    assert made.data(made.run(key("finetune", "sdpa"))) == {split: f"{tokens}/{split}" for split in splits}
    assert made.tokenizer(made.run(key("finetune", "sdpa"))) == ["results/tokenizers/wordpiece"]


PROBE = [
    ("stages/probe", {"start": "finetune", "task": {"kind": "sequence_classification"}, "data": {"imdb": {}}}),
    ("models/tfidf/skip", ["pretrain", "tapt", "probe"]),
]


def test_a_model_is_evaluated_as_it_is_where_there_is_no_recipe():
    made = plan(*PROBE)
    run = key("probe", "sdpa")
    assert not made.run(run).trains
    assert made.run(run).work.task.predicts
    assert made.start(made.run(run)) == [f"{FIRST}/finetune/sdpa/imdb/seed-1/model"]
    tokens = "results/data/imdb/tokens/wordpiece"
    assert made.data(made.run(run)) == {split: f"{tokens}/{split}" for split in ("validation", "test")}
    assert made.tokenizer(made.run(run)) == ["results/tokenizers/wordpiece"]
    settings = json.loads(made.run(run).settings)
    assert (settings["max_tokens"], settings["precision"], settings["labels"]) == (128, "fp32", ["no", "yes"])
    assert "recipe" not in settings
    assert made.minutes(made.run(run)) >= 15


LSTM = [("backbones/lstm", {"kind": "recurrent"}), ("models/lstm", {"backbone": "lstm"})]


def test_the_code_of_an_evaluation_is_that_of_its_backbone_and_task(modules_of):
    made = plan(*PROBE, *LSTM)
    places = (("probe", "sdpa"), ("probe", "lstm"), ("finetune", "tfidf"))
    encoder, recurrent, texts = (modules_of(made, key(*place)) for place in places)
    shared = {"lib.training.predictor", "lib.training.evaluate_tokens", "lib.tasks.sequence_classification",
              "lib.backbones.heads.sequence_classification",
              "lib.study.run"}  # fmt: skip
    assert shared <= encoder & recurrent
    assert {"lib.backbones.encoder.model", "lib.attention.sdpa.mechanism"} <= encoder - recurrent
    assert "lib.backbones.recurrent.model" in recurrent - encoder
    assert not {"lib.backbones.heads.masked_lm", "lib.training.run"} & (encoder | recurrent)
    assert not (texts & shared) - {"lib.tasks.sequence_classification"}
    assert "lib.training.trainer" not in texts


@pytest.mark.parametrize("model", ["sdpa", "lstm"])
def test_heads_of_other_tasks_are_not_in_a_runs_code(model, modules_of):
    """So that editing the classification head leaves pretraining alone."""
    made, heads = plan(*LSTM), {}
    for stage in ("tapt", "finetune"):
        found = modules_of(made, key(stage, model))
        heads[stage] = {name.rpartition(".")[2] for name in found if name.startswith("lib.backbones.heads.")}
    assert heads["tapt"] == {"masked_lm", "model"}
    assert heads["finetune"] == {"model", "sequence_classification"}


def test_a_backbone_of_texts_reads_documents():
    made = plan()
    splits = ("train", "validation", "test")
    documents = {split: f"results/data/imdb/prepared/{split}.parquet" for split in splits}
    assert made.data(made.run(key("finetune", "tfidf"))) == documents
    assert made.tokenizer(made.run(key("finetune", "tfidf"))) == []


def test_tokens_are_kept_by_tokeniser_and_made_for_those_who_read_them():
    made = plan(
        ("tokenizers/other", {"source": "trained", "corpus": ["wikipedia", "arxiv"]}),
        *((f"models/{name}/tokenizer", "wordpiece") for name in ("sdpa", "favor-m64")),
        ("models/lsh-h2-c64", {"backbone": "encoder", "mechanism": "lsh-h2-c64", "tokenizer": "other"}),
        ("models/lsh-h2-c64/start", "scratch"),
        ("models/lsh-h2-c64/skip", ["pretrain", "tapt"]),
    )
    assert made.data(made.run(key("finetune", "lsh-h2-c64")))["train"] == "results/data/imdb/tokens/other/train"
    assert made.tokenizer(made.run(key("finetune", "lsh-h2-c64"))) == ["results/tokenizers/other"]
    both = [("imdb", "wordpiece"), ("imdb", "other"), ("arxiv", "wordpiece"), ("arxiv", "other")]
    assert made.report.tokenised == [("wikipedia", "wordpiece"), *both]
    both_texts = [*made.corpora.filtered_shards("wikipedia"), "results/data/arxiv/prepared/train.parquet"]
    assert made.corpora.tokenizer_sources("other") == both_texts
    assert made.corpora.tokenizer_sources("wordpiece") == made.corpora.filtered_shards("wikipedia")


def settings_of(made):
    """Return the arguments of the rule with the settings of the tokeniser."""
    return ["--settings", made.experiment.tokenizers["wordpiece"].model_dump_json()]


@pytest.mark.parametrize(
    ("enclose", "tokens"), [(True, ["[CLS]", *"Noon!", "[SEP]"]), (False, [*"Noon!"])], ids=["enclosed", "bare"]
)
def test_a_tokeniser_of_bytes_is_made_from_nothing(repository, tmp_path, enclose, tokens):
    made = plan(("tokenizers/wordpiece", {"algorithm": "bytes", "enclose": enclose, "cut": "head_tail"}))
    assert made.corpora.tokenizer_sources("wordpiece") == []
    program = runpy.run_path(str(repository / "scripts/train_tokenizer.py"))["main"]
    program([*settings_of(made), "--out", str(tmp_path / "out")])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.convert_ids_to_tokens(tokenizer("Noon!")["input_ids"]) == tokens
    assert tokenizer.init_kwargs["cut"] == "head_tail"


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({}, ["[CLS]", "noon", "!", "[SEP]"]),
        ({"lowercase": False, "enclose": False}, ["Noon", "!"]),
        ({"algorithm": "words"}, ["[CLS]", "Noon!", "[SEP]"]),
        ({"algorithm": "words", "enclose": False}, ["Noon!"]),
        ({"algorithm": "words", "min_frequency": 3}, ["[CLS]", "[UNK]", "[SEP]"]),
        ({"sentinels": 2}, ["[CLS]", "noon", "!", "[SEP]"]),
        ({"algorithm": "bpe", "vocab_size": 300}, ["[CLS]", "Noon", "!", "[SEP]"]),
        ({"algorithm": "bpe", "vocab_size": 300, "min_frequency": 3, "enclose": False}, ["N", "o", "o", "n", "!"]),
    ],
)
def test_a_tokeniser_is_made_as_the_study_says(repository, tmp_path, settings, tokens):
    """The rule's program understands the options of the plan."""
    made = plan(("tokenizers/wordpiece", {"source": "trained", "vocab_size": 40} | settings))
    pq.write_table(pa.table({"text": ["Noon!", "Noon!"]}), tmp_path / "texts.parquet")
    program = runpy.run_path(str(repository / "scripts/train_tokenizer.py"))["main"]
    program([*settings_of(made), "--sources", str(tmp_path / "texts.parquet"), "--out", str(tmp_path / "out")])
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.convert_ids_to_tokens(tokenizer("Noon!")["input_ids"]) == tokens
    assert len(sentinel_ids(tokenizer)) == settings.get("sentinels", 0)


def test_a_published_tokeniser_is_made_from_its_folder(repository, tmp_path):
    hub = {"algorithm": "published", "source": "hub", "repository": "a/b", "revision": "0" * 40}
    assert plan(("tokenizers/wordpiece", hub)).corpora.tokenizer_sources("wordpiece") == [
        f"resources/tokenizers/a/b/{'0' * 40}"
    ]
    train_byte_pairs(tmp_path / "there", ["Noon!", "Noon!"])
    local = {"algorithm": "published", "source": "local", "path": str(tmp_path / "there")}
    made = plan(("tokenizers/wordpiece", local))
    (source,) = made.corpora.tokenizer_sources("wordpiece")
    program = runpy.run_path(str(repository / "scripts/train_tokenizer.py"))["main"]
    program([*settings_of(made), "--sources", source, "--out", str(tmp_path / "out")])
    found, expected = (TextTokenizer.load(tmp_path / name).encode_ragged(["Noon!"], 9) for name in ("out", "there"))
    assert found == expected
    masked = plan(("tokenizers/wordpiece", local | {"mask_token": "<a new one>"}))
    program([*settings_of(masked), "--sources", source, "--out", str(tmp_path / "masked")])
    assert TextTokenizer.load(tmp_path / "masked").backend.mask_token == "<a new one>"
    given = plan(("tokenizers/wordpiece", local | {"sentinels": 3}))
    program([*settings_of(given), "--sources", source, "--out", str(tmp_path / "s")])
    assert len(sentinel_ids(TextTokenizer.load(tmp_path / "s").backend)) == 3


def test_no_tokens_are_made_where_nobody_reads_any():
    made = plan(
        *((f"models/{name}/skip", list(STAGES[:2])) for name in ("sdpa", "favor-m64", "lsh-h2-c64")),
        *((f"models/{name}/start", "scratch") for name in ("sdpa", "favor-m64", "lsh-h2-c64")),
        ("stages/finetune/data", {"imdb": {}}),
    )
    assert made.report.tokenised == [("imdb", "wordpiece")]


def test_a_runs_settings_are_its_slice_of_the_configuration():
    made = plan(
        ("stages/finetune/data/arxiv", {"recipe": {"epochs": 7}, "task": {"classifier_dropout": 0.3}}),
        ("datasets/arxiv/max_tokens", 256),
        ("datasets/arxiv/labels", ["a", "b", "c"]),
    )
    settings = json.loads(made.run(key("finetune", "favor-m64", "arxiv", 2)).settings)
    assert settings["seed"] == 2
    assert settings["labels"] == ["a", "b", "c"]
    assert settings["max_tokens"] == 256
    assert settings["precision"] == "fp32"
    assert (settings["recipe"]["epochs"], settings["recipe"]["keep"]) == (7, ["best"])
    assert settings["task"]["classifier_dropout"] == 0.3
    assert settings["backbone"]["mechanism"]["nb_features"] == 64


def test_a_run_without_training_has_no_settings_of_training():
    settings = json.loads(plan().run(key("finetune", "tfidf")).settings)
    assert not {"recipe", "precision", "max_tokens"} & set(settings)
    changed = plan(("precision", "bf16"), ("stages/finetune/recipe/epochs", 9), ("datasets/imdb/max_tokens", 64))
    assert json.loads(changed.run(key("finetune", "tfidf")).settings) == settings


def test_the_settings_of_a_run_hold_no_path():
    moved = {"execution": {"results": "elsewhere/deep", "resources": "/somewhere"}}
    settings = [run.settings for run in plan().runs]
    assert settings == [run.settings for run in Plan(study(layers=[("moved.yaml", moved)])).runs]
    settings = " ".join(settings)
    assert "results" not in settings
    assert "/" not in settings


def test_paths_begin_with_the_studys_own_folders():
    moved = {"execution": {"results": "elsewhere/deep/", "resources": "there/"}}
    start = ("models/sdpa/start", {"repository": "a/b", "revision": "main", "unpinned": True})
    made = Plan(study(start, layers=[("moved.yaml", moved)]))
    run = key("finetune", "sdpa")
    places = [
        made.paths.folder(run),
        *made.data(made.run(run)).values(),
        *made.tokenizer(made.run(run)),
        *made.start(made.run(run)),
    ]
    places += [
        made.paths.table("f1"),
        made.paths.figure("f1"),
        made.paths.log("x"),
        *made.corpora.filtered_shards("wikipedia"),
    ]
    assert all(place.startswith("elsewhere/deep/") for place in places), places
    assert made.start(made.run(key("pretrain", "sdpa"))) == ["there/models/a/b/main"]


def test_only_what_a_run_reads_changes_its_settings():
    """What the first change touches differs; everything else stays."""

    def touched(*changes):
        before, after = plan(), plan(*changes)
        return {run.id[:3] for run in before.runs if run.settings != after.run(run.id).settings}

    assert touched(("mechanisms/lsh-h2-c64/mask_within_chunks", True)) == {
        run.id[:3] for run in plan().runs if run.id.model == "lsh-h2-c64"
    }
    assert touched(("stages/tapt/data/imdb", {"recipe": {"epochs": 9}})) == {
        ("tapt", model, "imdb") for model in ("sdpa", "lsh-h2-c64", "favor-m64")
    }
    assert touched(("backbones/tfidf/min_df", 3)) == {("finetune", "tfidf", name) for name in ("imdb", "arxiv")}
    assert touched(("models/more", {"backbone": "tfidf", "skip": ["pretrain", "tapt"]})) == set()
    assert touched(("datasets/more", SMALL["experiment"]["datasets"]["imdb"])) == set()


def test_the_programs_accept_what_the_plan_gives_them():
    made = plan(SWAP, *PROBE)
    assert {run.id.stage for run in made.runs} == {*STAGES, "probe"}
    for run in made.runs:
        settings = json.loads(run.settings) | {"data": made.data(run)}
        settings["execution"] = made.study.execution.training.model_dump(mode="json")
        if made.tokenizer(run):
            settings["tokenizer"] = made.tokenizer(run)[0]
        if made.start(run):
            settings["start"] = {"checkpoint": made.start(run)[0]}
        parsed = RunSettings.model_validate(settings)
        assert (parsed.trains, parsed.reads_tokens) == (run.trains, run.reads_tokens)
        assert set(parsed.data) == set(parsed.task.splits) - ({"train"} if run.id.stage == "probe" else set())


def test_train_and_evaluate_run_different_code():
    """The digest of a run is that of its own program, task, backbone and mechanism."""
    made = plan(SWAP)
    digests = {run.id[:2]: made.code(run) for run in made.runs}
    assert len(set(digests.values())) == 3 + 3 + 1  # masked language models, classifiers, the baseline
    assert digests["pretrain", "sdpa"] == digests["tapt", "sdpa"] != digests["finetune", "sdpa"]
    assert digests["finetune", "swap"] == digests["finetune", "favor-m64"]


def test_only_runs_with_adapters_depend_on_their_code():
    made, without, run = plan(("stages/tapt/recipe/lora", {"r": 8})), plan(), key("tapt", "sdpa")
    assert made.code(made.run(run)) != without.code(without.run(run))
    assert made.code(made.run(key("pretrain", "sdpa"))) == without.code(without.run(run))


def test_files_of_a_record():
    made = plan()
    run = key("finetune", "sdpa")
    folder = f"{FIRST}/finetune/sdpa/imdb/seed-1"
    files = [made.paths.config(run), made.paths.record(run), made.paths.model(run)]
    assert files == [f"{folder}/config.yaml", f"{folder}/run.json", f"{folder}/model"]


REPORT = {
    "report": {
        "tables": {
            "lengths": {"kind": "token_lengths"},
            "f1": {"stage": "finetune", "columns": ["f1"]},
            "baseline": {"kind": "classes", "stage": "finetune", "models": ["tfidf"]},
        },
        "figures": {"f1_time": {"kind": "score_time", "stage": "finetune", "time": ["tapt", "finetune"]}},
        "baseline": "tfidf",
    }
}


def test_tables_name_what_they_show_and_read():
    made = Plan(study(layers=[("report.yaml", REPORT)]))
    assert list(made.report.tables) == ["lengths", "f1", "baseline_imdb", "baseline_arxiv"]
    scope = made.report.tables["f1"]["scope"]
    assert scope["models"] == ["tfidf", "sdpa", "lsh-h2-c64", "favor-m64"]
    assert scope["published"] is None
    assert not {"baseline", "reference"} & set(scope), "it compares nothing"
    assert len(made.report.inputs(made.report.tables["f1"]["scope"])) == 4 * 2 * 2
    assert made.report.tables["baseline_arxiv"]["scope"]["stages"] == [["finetune", ["arxiv"]]]
    assert made.report.inputs(made.report.tables["baseline_arxiv"]["scope"]) == [
        f"{FIRST}/finetune/tfidf/arxiv/seed-{seed}/run.json" for seed in (1, 2)
    ]
    lengths = made.report.tables["lengths"]
    assert lengths["scope"]["tokenised"] == [(corpus, "wordpiece") for corpus in ("wikipedia", "imdb", "arxiv")]
    assert made.report.inputs(lengths["scope"]) == [
        f"results/data/{corpus}/tokens/wordpiece/token_lengths.json" for corpus in ("wikipedia", "imdb", "arxiv")
    ]


def test_a_table_may_show_some_of_the_datasets():
    shown = {"stage": ["pretrain", "tapt"], "columns": ["loss"], "datasets": ["arxiv"]}
    made = reported(tables={"loss": shown, "lengths": {"kind": "token_lengths", "datasets": ["arxiv", "wikipedia"]}})
    stages = [["pretrain", ["wikipedia"]], ["tapt", ["arxiv"]]]
    assert made.report.tables["loss"]["scope"]["stages"] == stages, "a stage that works on none of them shows all"
    assert {file.split("/")[4] for file in made.report.inputs(made.report.tables["loss"]["scope"])} == {
        "wikipedia",
        "arxiv",
    }
    assert made.report.inputs(made.report.tables["lengths"]["scope"]) == [
        f"results/data/{corpus}/tokens/wordpiece/token_lengths.json" for corpus in ("wikipedia", "arxiv")
    ]


def test_a_figure_groups_models_by_family_and_reads_all_its_stages():
    made = Plan(study(layers=[("report.yaml", REPORT)]))
    scope = made.report.figures["f1_time"]["scope"]
    families = {"tfidf": "tfidf", "sdpa": "sdpa", "lsh-h2-c64": "lsh", "favor-m64": "favor"}
    assert (scope["models"], scope["families"]) == (list(families), families)
    assert scope["stages"] == [["tapt", ["imdb", "arxiv"]], ["finetune", ["imdb", "arxiv"]]]
    assert scope["baseline"] == "tfidf"
    assert [list(scope["owners"][stage]) for stage in ("tapt", "finetune")] == [list(families)[1:], list(families)]
    assert made.report.inputs(made.report.figures["f1_time"]["scope"]) == records(made, "tapt", "finetune")


SCORE_TIME = {"kind": "score_time", "stage": "finetune", "time": ["finetune"]}


def test_the_baseline_is_read_even_if_it_is_no_row_and_left_out_where_it_has_no_run():
    made = reported(
        baseline="tfidf",
        figures={
            "f1": SCORE_TIME | {"models": ["sdpa"], "datasets": ["imdb"]},
            "loss": SCORE_TIME | {"stage": "tapt", "column": "loss"},
        },
    )
    assert made.report.figures["f1"]["scope"]["models"] == ["sdpa"]
    assert made.report.inputs(made.report.figures["f1"]["scope"]) == [
        f"{FIRST}/finetune/{model}/imdb/seed-{seed}/run.json" for model in ("tfidf", "sdpa") for seed in (1, 2)
    ]
    assert made.report.figures["loss"]["scope"]["baseline"] is None
    assert not [file for file in made.report.inputs(made.report.figures["loss"]["scope"]) if "tfidf" in file]


def test_the_reference_is_the_row_of_its_runs(monkeypatch):
    monkeypatch.setattr(TABLES.settings("stage"), "compares_with", ("reference", "baseline"))
    twin = ("models/twin", {"backbone": "encoder", "mechanism": "sdpa"})
    table = {"stage": "tapt", "columns": ["loss"], "models": ["favor-m64"]}
    scope = reported(twin, tables={"loss": table}, reference="twin").report.tables["loss"]["scope"]
    assert (scope["models"], scope["reference"], scope["baseline"]) == (["favor-m64"], "sdpa", None)
    assert scope["owners"] == {
        "tapt": {model: dict.fromkeys(["imdb", "arxiv"], model) for model in ("favor-m64", "sdpa")}
    }


def test_the_programs_read_the_scopes_of_the_plan():
    """As JSON with sorted keys, whose order of models and stages they keep."""
    made = Plan(study(layers=[("report.yaml", REPORT)]))
    for shown in (made.report.tables["f1"], made.report.tables["lengths"], made.report.figures["f1_time"]):
        built = read_scope(json.loads(as_json(shown))["scope"], made.report.inputs(shown["scope"]))
        assert list(built.models) == shown["scope"]["models"]
        assert [list(item) for item in built.stages.items()] == shown["scope"]["stages"]
        assert list(built.families.items()) == list(shown["scope"].get("families", {}).items())


def test_a_table_depends_on_the_code_of_its_kind_and_of_no_other():
    made = Plan(study(layers=[("report.yaml", REPORT)]))
    codes = {name: made.report.code(TABLES, made.report.tables[name]) for name in made.report.tables}
    assert codes["baseline_imdb"] == codes["baseline_arxiv"]
    assert len(set(codes.values())) == len(codes) - 1
    for axis, program in ((TABLES, "table"), (FIGURES, "figure")):
        for kind in axis.kinds():
            module = axis.module(kind, "settings")
            found = {definition.split(":")[0] for definition in reached(f"scripts/{program}.py", module)}
            packages = tuple(f"{package}." for package in extensions.packages(axis.package))
    assert {name for name in found if name.startswith(packages)} == {module}
    for program in ("train", "evaluate"):
        assert not [name for name in reached(f"scripts/{program}.py") if name.startswith("lib.results")]
    classes = {name.split(":")[0] for name in reached("scripts/table.py", "lib.results.kinds.classes")}
    assert "lib.evaluation.metrics" in classes


MAPS = {"kind": "attention_maps", "stage": "pretrain", "document": 3}
SENSES = {"kind": "embeddings", "stage": "finetune", "dataset": "arxiv", "word": "field"}


def test_an_analysis_looks_at_the_models_that_it_can_with_the_first_seed():
    made = analyses(maps=MAPS, senses=SENSES | {"models": ["favor-m64", "sdpa"]})
    trained = ["sdpa", "lsh-h2-c64", "favor-m64"]
    assert [run.id for run in made.report.analysed("maps")] == [key("pretrain", model) for model in trained]
    senses = [key("finetune", model, "arxiv") for model in ("favor-m64", "sdpa")]
    assert [run.id for run in made.report.analysed("senses")] == senses
    families = [["sdpa", "sdpa"], ["lsh-h2-c64", "lsh"], ["favor-m64", "favor"]]
    assert json.loads(json.dumps(made.report.analysis_look("maps"))) == {
        "kind": "attention_maps",
        "families": families,
        "generated": ["wikipedia"],
    }


def test_an_analysis_computes_by_the_settings_of_its_kind():
    made = analyses(maps=MAPS, senses=SENSES)
    assert made.report.analysis_settings("maps") == {"kind": "attention_maps", "options": {"document": 3}}
    assert made.report.analysis_settings("senses")["options"] == {
        "documents": 200,
        "word": "field",
        "labels": ["no", "yes"],
    }


def test_models_that_share_a_run_are_looked_at_once():
    made = analyses(SWAP, maps=MAPS | {"models": ["swap", "sdpa"]})
    assert [run.id for run in made.report.analysed("maps")] == [key("pretrain", "sdpa")]


def test_an_analysis_reads_what_its_runs_left_and_documents_that_none_was_trained_on():
    made = analyses(maps=MAPS | {"models": ["sdpa"]}, senses=SENSES | {"models": ["sdpa"]})
    run = f"{FIRST}/finetune/sdpa/arxiv/seed-1"
    assert made.report.analysis_inputs("senses") == {
        "configs": [f"{run}/config.yaml"],
        "records": [f"{run}/run.json"],
        "tokenizers": ["results/tokenizers/wordpiece"],
        "tokens": ["results/data/arxiv/tokens/wordpiece/test"],
    }
    assert made.report.analysis_inputs("maps")["tokens"] == ["results/data/wikipedia/tokens/wordpiece/validation"]


def test_the_cost_of_predictions_is_measured_on_test_documents_as_they_are_written():
    made = analyses(cost={"kind": "prediction_cost", "stage": "finetune", "dataset": "arxiv"})
    texts, own = (f"results/data/arxiv/prepared/{split}.parquet" for split in ("test", "train"))
    folder = f"{FIRST}/finetune/tfidf/arxiv/seed-1"
    arguments = ["--baseline", folder, "--baseline-texts", own, "--texts", texts]
    assert made.report.text_arguments("cost") == arguments
    assert made.report.analysis_inputs("cost")["documents"] == [texts]
    without = analyses(
        ("models/tfidf", DELETE), cost={"kind": "prediction_cost", "stage": "finetune", "dataset": "arxiv"}
    )
    assert without.report.text_arguments("cost") == ["--texts", texts]
    assert {run.settings for run in made.runs} >= {run.settings for run in without.runs}


def test_an_analysis_depends_on_the_code_of_its_kind_and_no_run_on_any():
    made = analyses(maps=MAPS, others=MAPS | {"document": 4}, senses=SENSES)
    assert (
        made.report.analysis_code("maps") == made.report.analysis_code("others") != made.report.analysis_code("senses")
    )
    for kind in ANALYSES.kinds():
        computing, drawing = (
            {definition.split(":")[0] for definition in reached(program, module)}
            for program, module in (
                ("scripts/analyse.py", computation(kind)),
                ("scripts/analysis_figure.py", ANALYSES.module(kind)),
            )
        )
        rest = [other for other in ANALYSES.kinds() if other != kind]
        others = {module for other in rest for module in (ANALYSES.module(other), computation(other))}
        assert not (computing | drawing) & others
        assert not {name for name in computing if name.startswith("lib.results")}
        assert not {name for name in drawing if name.startswith(("lib.backbones", "lib.training"))}
        assert computation(kind) not in drawing
    for program in ("train", "evaluate"):
        assert not [name for name in reached(f"scripts/{program}.py") if name.startswith("lib.analysis")]


def test_an_analysis_that_tries_mechanisms_depends_on_their_code(monkeypatch):
    made = analyses(near={"kind": "approximation", "stage": "pretrain", "models": ["sdpa"]}, maps=MAPS)
    monkeypatch.setattr("lib.workflow.planning.report.code_digest", lambda *modules: modules)
    tried = [f"lib.attention.{kind}.{part}" for kind in ("favor", "lsh") for part in ("mechanism", "settings")]
    assert made.report.analysis_code("near") == ("scripts/analyse.py", computation("approximation"), *tried)
    assert made.report.analysis_code("maps") == (
        "scripts/analyse.py",
        "studies.toy.analysis.computations.attention_maps",
    )


def test_raw_files_by_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").touch()
    sha = "0" * 64
    made = plan(
        ("corpora/wikipedia/source", "hub"),
        (
            "corpora/wikipedia/hub",
            {"repository": "a/b", "revision": "0" * 40, "files": {"train": ["x-{0..1}.parquet"]}},
        ),
        ("datasets/imdb/source", "local"),
        ("datasets/imdb/local", {"files": {"train": ["*.csv"]}}),
        ("datasets/arxiv/source", "url"),
        ("datasets/arxiv/url", {"files": {"train": [{"url": "https://a.org/d/y.csv?x=1", "sha256": sha, "size": 3}]}}),
    )
    assert made.corpora.raw_files("wikipedia") == {
        "train": [f"resources/texts/a/b/{'0' * 40}/x-{number}.parquet" for number in (0, 1)]
    }
    assert made.corpora.raw_files("imdb") == {"train": ["mine.csv"]}
    ((address, file),) = made.corpora.remote_files.items()
    assert made.corpora.raw_files("arxiv") == {"train": [f"resources/urls/{address}"]}
    assert re.fullmatch("[0-9a-f]{12}/y.csv", address)
    assert download_options(file) == ["--url", "https://a.org/d/y.csv?x=1", "--size", "3", "--sha256", sha]
    assert made.corpora.corpora_from("hub") == ["wikipedia"]
    (tmp_path / "mine.csv").unlink()
    with pytest.raises(DataError, match=r"\*\.csv: no such file"):
        made.corpora.raw_files("imdb")


def test_a_file_of_two_parts_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").touch()
    local = {"files": {"train": ["*.csv"], "test": ["./mine.csv"]}}
    made = plan(("datasets/imdb/source", "local"), ("datasets/imdb/local", local))
    with pytest.raises(DataError, match=r"experiment.datasets.imdb.local.files: mine.csv: named twice"):
        made.corpora.raw_files("imdb")


def test_every_download_has_a_place_of_its_own():
    """Whatever a dataset is called, and whatever of two addresses or revisions is alike."""
    urls = [
        "https://a.org/train/data.csv",
        "https://a.org/test/data.csv",
        "https://a.org/test/Data.csv",
        "https://b.org/test/data.csv",
        "https://a.org/test/data.csv?part=2",
        "https://a.org/test/data.csv#2",
        "https://a.org/test%20/data.csv",
        f"https://a.org/{'long' * 100}.csv",
        "https://a.org/{x}.csv",
    ]
    files = [{"url": url, "sha256": "0" * 64} for url in urls]
    dataset = SMALL["experiment"]["datasets"]["imdb"]
    names = ["urls", "texts", "tokenizers", "models", "vocabularies"]
    hubs = {
        name: {"repository": "a/b", "revision": revision, "unpinned": True, "files": {"train": ["x.csv", "y/x.csv"]}}
        for name, revision in zip(names, ["main", "refs/pr/1", "refs-pr-1", "refs", "1"], strict=True)
    }
    start = {"repository": "a/b", "revision": "refs/pr/1", "unpinned": True}
    made = plan(
        ("datasets/imdb", dataset | {"source": "url", "url": {"files": {"train": files}}}),
        *((f"datasets/{name}", dataset | {"source": "hub", "hub": hub}) for name, hub in hubs.items()),
        ("tokenizers/wordpiece", {"algorithm": "published", "source": "hub"} | start),
        ("models/sdpa/start", start),
    )
    places = [path for name in ("imdb", *names) for path in made.corpora.raw_list(name)]
    places += made.corpora.tokenizer_sources("wordpiece")
    places += [made.paths.downloads("models", "a/b", revision) for revision in ("refs/pr/1", "refs")]
    assert len({place.lower() for place in places}) == len(places) == len(urls) + 2 * len(names) + 3
    assert not [(one, other) for one in places for other in places if other.startswith(f"{one}/")]
    assert not [place for place in places if "{" in place or any(len(part) > 255 for part in place.split("/"))]


def test_a_file_of_folds_is_an_input():
    folds = {"file": "folds.csv", "validation": 4, "test": 3}
    made = plan(("datasets/imdb/split", {"folds": folds}), ("datasets/arxiv/split", {"folds": folds | {"file": None}}))
    assert (made.corpora.fold_file("imdb"), made.corpora.fold_file("arxiv")) == (["folds.csv"], [])


def test_a_corpus_has_the_generator_that_it_names_or_that_bears_its_name():
    sizes = {"validation": 10, "test": 10}
    toy = SMALL["experiment"]["datasets"]["imdb"] | {
        "generated": {"documents": 110, "generator": "reverse", "options": sizes | {"length": 4}}
    }
    named = toy | {"generated": {"documents": 110, "options": sizes}}
    made = plan(("datasets/mirror", toy), ("datasets/reverse", named))
    for corpus, length in (("mirror", 4), ("reverse", 8)):
        assert made.corpora.generator(corpus) == "reverse"
        assert made.corpora.raw_files(corpus)["validation"] == [f"results/data/{corpus}/raw/validation.parquet"]
        assert json.loads(made.corpora.generator_options(corpus)) == sizes | {"symbols": 10, "length": length}
    assert made.corpora.generator_options("imdb") == "{}"


def test_the_code_of_a_generated_corpus_is_that_of_its_generator(monkeypatch):
    made = plan()
    named = []
    monkeypatch.setattr("lib.workflow.planning.corpora.code_digest", lambda *places: named.append(places))
    made.corpora.generator_code("wikipedia")
    assert named == [("scripts/generate_corpus.py", "lib.generators.wikipedia")]
    definitions = reached(*named[0])
    assert {"lib.generators.wikipedia:make", "lib.generators.imdb:opinions"} <= set(definitions)
    assert not [name for name in definitions if name.startswith(("lib.generators.arxiv", "lib.preparing.toys"))]


def test_named_pairs_need_no_reference():
    table = {"kind": "significance", "stage": "finetune"}
    reported(tables={"pairs": table | {"pairs": [["sdpa", "favor-m64"]]}})
    with pytest.raises(ConfigError, match=r"report.reference is null"):
        reported(tables={"pairs": table})


def minutes(made, run):
    return made.minutes(made.run(run))


def test_minutes_follow_from_work_and_scale():
    scaled = {"execution": {"job": {"runtime_scale": 3}}}
    run = key("pretrain", "sdpa")
    long = ("stages/pretrain/recipe/epochs", 2000)
    assert minutes(plan(long), run) > minutes(plan(), run) >= 15
    assert minutes(Plan(study(long, layers=[("slow.yaml", scaled)])), run) == pytest.approx(
        3 * minutes(plan(long), run), abs=2
    )


def test_no_job_asks_for_less_time_than_it_takes_to_start_and_to_be_warned():
    scaled = {"execution": {"job": {"runtime_scale": 0.001}}}
    assert minutes(Plan(study(layers=[("fast.yaml", scaled)])), key("pretrain", "sdpa")) == SHORTEST_MINUTES

"""The plan: from a study to runs, what each starts from and reads, and the settings that decide whether it is stale."""

import json
import re
import runpy

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_plans import analyses, key, plan, records
from small_studies import DELETE, SMALL, study
from transformers import AutoTokenizer

from lib.analysis.settings import ANALYSES, computation
from lib.core.errors import ConfigError, DataError
from lib.core.record import RunId
from lib.study.configuration import load_study, read_layers
from lib.study.recipe import Recipe
from lib.study.run import RunSettings
from lib.workflow.planning.corpora import download_options
from lib.workflow.planning.plan import Plan
from lib.workflow.staleness.digests import reached
from studies.hate_speech.tokens.span_corruption import sentinel_ids

FIRST = "results/runs"
STAGES = ("pretrain", "tapt", "finetune")


def runs_of(made, stage):
    return [(run.id.model, run.id.dataset, run.id.seed) for run in made.runs if run.id.stage == stage]


def test_one_run_per_stage_model_data_and_seed():
    made = plan()
    trained = ("sdpa", "lsh-h2-c64", "favor-m64")
    assert runs_of(made, "pretrain") == [(model, "wikipedia", seed) for model in trained for seed in (1, 2)]
    assert len(runs_of(made, "tapt")) == 3 * 2 * 2
    assert len(runs_of(made, "finetune")) == 4 * 2 * 2
    assert len({run.id for run in made.runs}) == len(made.runs)
    assert made.run(key("finetune", "sdpa")).trains
    assert not made.run(key("finetune", "tfidf")).trains
    assert [made.run(key(stage, "sdpa")).work.task.predicts for stage in STAGES] == [False, False, True]


def test_runs_of_the_grid(repository):
    made = Plan(load_study(read_layers([repository / "config/config.yaml"])))
    assert {stage: len(runs_of(made, stage)) for stage in STAGES} == {"pretrain": 9, "tapt": 27, "finetune": 30}
    assert made.run(RunId("finetune", "favor-m64", "arxiv", 420)).parent == RunId("tapt", "favor-m64", "arxiv", 420)
    assert made.run(RunId("tapt", "favor-m64", "arxiv", 420)).parent == RunId("pretrain", "favor-m64", "wikipedia", 420)


SWAP = ("models/swap", {"backbone": "encoder", "mechanism": "sdpa", "changes": {"tapt": {"mechanism": "favor-m64"}}})
DIRECT = ("models/direct", {"backbone": "encoder", "mechanism": "sdpa", "skip": ["tapt"]})
ELSEWHERE = "results/runs/pretrain/favor-m256/wikipedia/seed-420/model"
HUB = {"repository": "owner/name", "revision": "0" * 40}
# Changes of the study, a run, and the folder of the weights that it starts from.
STARTS = [
    ([], key("finetune", "sdpa", "arxiv", 2), f"{FIRST}/tapt/sdpa/arxiv/seed-2/model"),
    ([], key("tapt", "sdpa", "arxiv", 2), f"{FIRST}/pretrain/sdpa/wikipedia/seed-2/model"),
    ([], key("pretrain", "sdpa"), None),
    ([], key("finetune", "tfidf"), None),
    ([("models/sdpa/skip", ["tapt"])], key("finetune", "sdpa"), f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"),
    ([("models/sdpa/skip", ["pretrain"]), ("models/sdpa/start", "scratch")], key("tapt", "sdpa"), None),
    ([SWAP], key("tapt", "swap"), f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"),
    ([SWAP], key("finetune", "swap"), f"{FIRST}/tapt/swap/imdb/seed-1/model"),
    ([DIRECT], key("finetune", "direct"), f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"),
    (
        [("models/favor-m64/skip", ["pretrain"]), ("models/favor-m64/start", {"folder": ELSEWHERE})],
        key("tapt", "favor-m64", "arxiv", 2),
        ELSEWHERE,
    ),
    ([("models/sdpa/start", HUB)], key("pretrain", "sdpa"), f"resources/models/owner/name/{'0' * 40}"),
    ([("models/sdpa/start", HUB)], key("tapt", "sdpa"), f"{FIRST}/pretrain/sdpa/wikipedia/seed-1/model"),
]


def test_start_of_runs():
    for changes, run, folder in STARTS:
        made = plan(*changes)
        assert made.start(made.run(run)) == ([folder] if folder else []), (changes, run)


def test_rule_waits_for_record_of_a_model():
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


def test_rule_waits_for_files_of_a_foreign_folder(tmp_path, monkeypatch):
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


def test_run_is_found_by_its_path():
    made = plan()
    assert made.run_at("tapt/sdpa/imdb/seed-2") is made.run(key("tapt", "sdpa", seed=2))
    with pytest.raises(ConfigError, match="tapt/sdpa/imdb/seed-3: no run of this study"):
        made.run_at("tapt/sdpa/imdb/seed-3")


def test_models_share_runs_while_they_are_the_same():
    made = plan(SWAP, DIRECT)
    assert made.graph.owners("pretrain", "wikipedia") == ["sdpa", "lsh-h2-c64", "favor-m64"]
    assert made.graph.owners("tapt", "imdb") == ["sdpa", "lsh-h2-c64", "favor-m64", "swap"]
    assert "direct" in made.graph.owners("finetune", "imdb")
    assert json.loads(made.run(key("tapt", "swap")).settings)["backbone"]["mechanism"]["kind"] == "favor"


def test_first_model_owns_what_is_shared():
    """A change before the others' place in the list moves the run, and nothing else does."""
    late = plan(SWAP).study.model_dump(mode="json")
    models = late["experiment"]["models"]
    late["experiment"]["models"] = {"swap": models.pop("swap"), **models}
    made = Plan(load_study([("late.yaml", late)]))
    assert made.graph.owners("pretrain", "wikipedia") == ["swap", "lsh-h2-c64", "favor-m64"]
    assert made.start(made.run(key("tapt", "sdpa"))) == [f"{FIRST}/pretrain/swap/wikipedia/seed-1/model"]


DIFFERENCES = [
    {"start": "scratch"},
    {"start": {"folder": "elsewhere/model"}},
    {"tokenizer": "other"},
    {"mechanism": "favor-m64"},
    {"backbone": "wide"},
]


def test_models_that_differ_in_anything_share_nothing():
    same = {"backbone": "encoder", "mechanism": "sdpa", "tokenizer": "wordpiece"}
    for difference in DIFFERENCES:
        made = plan(
            ("tokenizers/other", {"source": "local", "path": "vocab.txt"}),
            ("backbones/wide", SMALL["experiment"]["backbones"]["encoder"] | {"intermediate_size": 64}),
            *((f"models/{name}/tokenizer", "wordpiece") for name in ("sdpa", "lsh-h2-c64", "favor-m64")),
            ("models/twin", same),
            ("models/near", same | difference),
            ("models/favor-m64", same | {"mechanism": "lsh-h2-c64"}),
        )
        for stage, dataset in (("pretrain", "wikipedia"), ("tapt", "imdb"), ("finetune", "imdb")):
            assert "twin" not in made.graph.owners(stage, dataset)
            assert "near" in made.graph.owners(stage, dataset), difference


def test_run_reads_splits_of_its_task():
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


def test_stage_without_recipe_evaluates():
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


def test_tokens_by_tokenizer():
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


TOKENIZERS = [
    ({"algorithm": "bytes", "cut": "head_tail"}, ["[CLS]", *"Noon!", "[SEP]"]),
    ({"algorithm": "bytes", "enclose": False}, [*"Noon!"]),
    ({}, ["[CLS]", "noon", "!", "[SEP]"]),
    ({"lowercase": False, "enclose": False}, ["Noon", "!"]),
    ({"algorithm": "words"}, ["[CLS]", "Noon!", "[SEP]"]),
    ({"algorithm": "words", "min_frequency": 3}, ["[CLS]", "[UNK]", "[SEP]"]),
    ({"sentinels": 2}, ["[CLS]", "noon", "!", "[SEP]"]),
    ({"algorithm": "bpe", "vocab_size": 300, "min_frequency": 3, "enclose": False}, ["N", "o", "o", "n", "!"]),
]


def test_tokenizers_made_as_the_study_says(repository, tmp_path):
    """The rule's program understands the options of the plan."""
    pq.write_table(pa.table({"text": ["Noon!", "Noon!"]}), tmp_path / "texts.parquet")
    program = runpy.run_path(str(repository / "scripts/train_tokenizer.py"))["main"]
    for number, (settings, tokens) in enumerate(TOKENIZERS):
        from_bytes = settings.get("algorithm") == "bytes"
        made = plan(
            ("tokenizers/wordpiece", ({} if from_bytes else {"source": "trained", "vocab_size": 40}) | settings)
        )
        sources = [] if from_bytes else ["--sources", str(tmp_path / "texts.parquet")]
        assert bool(made.corpora.tokenizer_sources("wordpiece")) == bool(sources)
        program([*settings_of(made), *sources, "--out", str(tmp_path / f"{number}")])
        tokenizer = AutoTokenizer.from_pretrained(tmp_path / f"{number}")
        assert tokenizer.convert_ids_to_tokens(tokenizer("Noon!")["input_ids"]) == tokens, settings
        assert len(sentinel_ids(tokenizer)) == settings.get("sentinels", 0)
        assert tokenizer.init_kwargs.get("cut", "head") == settings.get("cut", "head")


def test_settings_of_a_run():
    made = plan(
        ("stages/finetune/data/arxiv", {"recipe": {"epochs": 7}, "task": {"classifier_dropout": 0.3}}),
        ("datasets/arxiv/max_tokens", 256),
        ("datasets/arxiv/labels", ["a", "b", "c"]),
    )
    settings = json.loads(made.run(key("finetune", "favor-m64", "arxiv", 2)).settings)
    own = {"seed": 2, "labels": ["a", "b", "c"], "max_tokens": 256, "precision": "fp32"}
    assert settings.items() >= own.items()
    assert (settings["recipe"]["epochs"], settings["recipe"]["keep"]) == (7, ["best"])
    assert settings["recipe"].keys() == {*Recipe.model_fields} - {"class_weights", "patience"}
    assert settings["task"]["classifier_dropout"] == 0.3
    assert settings["backbone"]["mechanism"]["nb_features"] == 64


def test_settings_of_a_run_without_training():
    settings = json.loads(plan().run(key("finetune", "tfidf")).settings)
    assert not {"recipe", "precision", "max_tokens"} & set(settings)
    changed = plan(("precision", "bf16"), ("stages/finetune/recipe/epochs", 9), ("datasets/imdb/max_tokens", 64))
    assert json.loads(changed.run(key("finetune", "tfidf")).settings) == settings


def test_settings_of_a_run_hold_no_path():
    moved = {"execution": {"results": "elsewhere/deep", "resources": "/somewhere"}}
    settings = [run.settings for run in plan().runs]
    assert settings == [run.settings for run in Plan(study(layers=[("moved.yaml", moved)])).runs]
    settings = " ".join(settings)
    assert "results" not in settings
    assert "/" not in settings


def test_paths_begin_with_own_folders():
    moved = {"execution": {"results": "elsewhere/deep/", "resources": "there/"}}
    start = ("models/sdpa/start", {"repository": "a/b", "revision": "main", "unpinned": True})
    made = Plan(study(start, layers=[("moved.yaml", moved)]))
    run = made.run(key("finetune", "sdpa"))
    places = [made.paths.folder(run.id), *made.data(run).values(), *made.tokenizer(run), *made.start(run)]
    places += [made.paths.table("f1"), made.paths.log("x"), *made.corpora.filtered_shards("wikipedia")]
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


def test_programs_accept_settings_of_the_plan():
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


def test_runs_share_code_by_program_task_and_mechanism():
    """The digest of a run is that of its own program, task, backbone and mechanism."""
    made = plan(SWAP)
    digests = {run.id[:2]: made.code(run) for run in made.runs}
    assert len(set(digests.values())) == 3 + 3 + 1  # masked language models, classifiers, the baseline
    assert digests["pretrain", "sdpa"] == digests["tapt", "sdpa"] != digests["finetune", "sdpa"]
    assert digests["finetune", "swap"] == digests["finetune", "favor-m64"]


def test_only_runs_with_adapters_depend_on_them():
    made, without, run = plan(("stages/tapt/recipe/lora", {"r": 8})), plan(), key("tapt", "sdpa")
    assert made.code(made.run(run)) != without.code(without.run(run))
    assert made.code(made.run(key("pretrain", "sdpa"))) == without.code(without.run(run))


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
    assert not {"baseline", "reference"} & set(scope), "it compares nothing"
    assert sorted(made.report.inputs(scope)) == sorted(records(made, "finetune"))
    assert made.report.inputs(made.report.tables["baseline_arxiv"]["scope"]) == [
        f"{FIRST}/finetune/tfidf/arxiv/seed-{seed}/run.json" for seed in (1, 2)
    ]
    assert made.report.inputs(made.report.tables["lengths"]["scope"]) == [
        f"results/data/{corpus}/tokens/wordpiece/token_lengths.json" for corpus in ("wikipedia", "imdb", "arxiv")
    ]
    assert made.report.inputs(made.report.figures["f1_time"]["scope"]) == records(made, "tapt", "finetune")


MAPS = {"kind": "attention_maps", "stage": "pretrain", "document": 3}
SENSES = {"kind": "embeddings", "stage": "finetune", "dataset": "arxiv", "word": "field"}


def test_analysis_reads_unseen_documents():
    made = analyses(maps=MAPS | {"models": ["sdpa"]}, senses=SENSES | {"models": ["sdpa"]})
    run = f"{FIRST}/finetune/sdpa/arxiv/seed-1"
    assert made.report.analysis_inputs("senses") == {
        "configs": [f"{run}/config.yaml"],
        "records": [f"{run}/run.json"],
        "tokenizers": ["results/tokenizers/wordpiece"],
        "tokens": ["results/data/arxiv/tokens/wordpiece/test"],
    }
    assert made.report.analysis_inputs("maps")["tokens"] == ["results/data/wikipedia/tokens/wordpiece/validation"]


def test_cost_is_measured_on_test_documents():
    made = analyses(cost={"kind": "prediction_cost", "stage": "finetune", "dataset": "arxiv"})
    texts = "results/data/arxiv/prepared/test.parquet"
    folder = f"{FIRST}/finetune/tfidf/arxiv/seed-1"
    arguments = ["--baseline", folder, "--texts", texts]
    assert made.report.text_arguments("cost") == arguments
    assert made.report.analysis_inputs("cost")["documents"] == [texts]
    without = analyses(
        ("models/tfidf", DELETE), cost={"kind": "prediction_cost", "stage": "finetune", "dataset": "arxiv"}
    )
    assert without.report.text_arguments("cost") == ["--texts", texts]
    assert {run.settings for run in made.runs} >= {run.settings for run in without.runs}


def test_analysis_depends_on_code_of_its_kind():
    for kind in ANALYSES.kinds():
        programs = (("scripts/analyse.py", computation(kind)), ("scripts/analysis_figure.py", ANALYSES.module(kind)))
        computing, drawing = ({each.split(":")[0] for each in reached(*program)} for program in programs)
        rest = [other for other in ANALYSES.kinds() if other != kind]
        assert not (computing | drawing) & {
            module for other in rest for module in (ANALYSES.module(other), computation(other))
        }
        assert computation(kind) not in drawing
    for program in ("train", "evaluate"):
        assert not [name for name in reached(f"scripts/{program}.py") if name.startswith("lib.analysis")]


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


def test_download_has_a_place_of_its_own():
    """Whatever a dataset is called, and whatever of two addresses or revisions is alike."""
    ends = ["train/data.csv", "test/data.csv", "test/Data.csv", "test/data.csv?part=2", "test/data.csv#2", "{x}.csv"]
    urls = [
        *(f"https://a.org/{end}" for end in ends),
        "https://b.org/test/data.csv",
        f"https://a.org/{'long' * 99}.csv",
    ]
    dataset = SMALL["experiment"]["datasets"]["imdb"]
    files = {"train": [{"url": url, "sha256": "0" * 64} for url in urls]}
    revisions = {"texts": "main", "tokenizers": "refs/pr/1", "models": "refs-pr-1", "vocabularies": "refs"}
    hub = {"repository": "a/b", "unpinned": True}
    hubs = {
        name: hub | {"revision": each, "files": {"train": ["x.csv", "y/x.csv"]}} for name, each in revisions.items()
    }
    made = plan(
        ("datasets/imdb", dataset | {"source": "url", "url": {"files": files}}),
        *((f"datasets/{name}", dataset | {"source": "hub", "hub": each}) for name, each in hubs.items()),
        ("tokenizers/wordpiece", {"algorithm": "published", "source": "hub", "revision": "refs/pr/1"} | hub),
    )
    places = [path for name in ("imdb", *hubs) for path in made.corpora.raw_list(name)]
    places += made.corpora.tokenizer_sources("wordpiece")
    assert len({place.lower() for place in places}) == len(places) == len(urls) + 2 * len(hubs) + 1
    assert not [(one, other) for one in places for other in places if other.startswith(f"{one}/")]
    assert not [place for place in places if "{" in place or any(len(part) > 255 for part in place.split("/"))]


def test_generator_of_a_corpus():
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

import copy
import json

import pytest
import yaml
from snakemake.utils import update_config

from lib.core.errors import ConfigError
from lib.core.settings.study import load_study
from lib.workflow.config_reference import config_readme, config_schema

SHIPPED = ("config/config.yaml", "config/demo.yaml")


@pytest.fixture
def values(repository):
    return yaml.safe_load((repository / SHIPPED[0]).read_text())


def changed(values, *changes):
    """Return `values` with each change, a dotted place and its value, made."""
    values = copy.deepcopy(values)
    for place, value in changes:
        *path, last = place.split(".")
        target = values
        for key in path:
            target = target.setdefault(key, {})
        target[last] = value
    return values


def test_the_full_grid_is_what_the_study_compares(values):
    experiment = load_study(values).experiment
    assert experiment.model_names == [
        "sdpa", "lsh-h2-c64", "lsh-h2-c128", "lsh-h4-c64", "lsh-h4-c128",
        "favor-m64", "favor-m128", "favor-m256", "favor-m512",
    ]  # fmt: skip
    assert list(experiment.datasets) == ["imdb", "hyperpartisan", "arxiv"]
    assert experiment.seeds == [420]


def test_the_demo_lies_over_the_full_grid_and_keeps_its_mechanisms(values, repository):
    full = load_study(values)
    update_config(values, yaml.safe_load((repository / SHIPPED[1]).read_text()))
    demo = load_study(values)
    assert demo.experiment.mechanisms == full.experiment.mechanisms
    assert demo.execution.results == "results/demo"
    sources = [demo.experiment.wikipedia, *demo.experiment.datasets.values()]
    assert {corpus.source for corpus in sources} == {"generated"}


def test_null_removes_a_dataset_with_its_stages(values):
    experiment = load_study(changed(values, ("experiment.datasets.arxiv", None))).experiment
    assert list(experiment.datasets) == list(experiment.tapt) == list(experiment.finetune) == ["imdb", "hyperpartisan"]


BAD = {
    "unknown key": (("experiment.encoder.hiden_size", 64), "experiment.encoder.hiden_size: unknown key"),
    "unknown key at the top": (("experimnt", {}), "experimnt: unknown key"),
    "wrong type": (("experiment.pretrain.epochs", "ten"), "experiment.pretrain.epochs.*Found 'ten'"),
    "unknown mechanism": (
        ("experiment.mechanisms.linformer", {"kind": "linformer"}),
        "'linformer' is not a known attention mechanism.*favor, lsh, sdpa",
    ),
    "unknown parameter": (
        ("experiment.mechanisms.sdpa", {"kind": "sdpa", "chunk_size": 64}),
        "sdpa.chunk_size: Extra inputs",
    ),
    "a name that contradicts": (
        ("experiment.mechanisms.lsh-h2-c64", {"kind": "lsh", "num_hashes": 2, "chunk_size": 32}),
        "lsh-h2-c64: the name contradicts the parameters, which spell lsh-h2-c32",
    ),
    "an odd number of features": (
        ("experiment.mechanisms.favor-m63", {"kind": "favor", "nb_features": 63}),
        "nb_features = 63 is odd.*Use 64 or 62",
    ),
    "heads that do not divide": (
        ("experiment.encoder.num_attention_heads", 7),
        "num_attention_heads = 7 does not divide the attention width 512",
    ),
    "an odd head under rope": (("experiment.encoder.attention_size", 24), "a head is 3 wide.*even width"),
    "learned positions too short": (
        ("experiment.encoder", {"position_embedding_type": "learned", "max_position_embeddings": 512}),
        "max_position_embeddings = 512 does not reach the longest max_tokens, 16384",
    ),
    "weight dropout without weights": (
        ("experiment.encoder.attention_dropout", 0.1),
        "attention_dropout = 0.1, but favor-m64 has no attention weights",
    ),
    "an unknown model": (("experiment.models", ["sdpa", "bert"]), "models: 'bert' names 'bert'; known: sdpa"),
    "a swap that cannot be": (("experiment.models", ["sdpa-to-lsh-h2-c64"]), "cannot hand over weights"),
    "a dataset without its stage": (
        ("experiment.tapt", {"imdb": {"epochs": 1, "learning_rate": 1e-3, "min_lr_ratio": 0.5, "batch_size": 8}}),
        "tapt: no section for the dataset.* arxiv, hyperpartisan",
    ),
    "a source without its section": (("experiment.datasets.imdb.source", "local"), "there is no section 'local'"),
    "a probability above 1": (
        ("experiment.masking", {"mask_token_probability": 0.8, "random_token_probability": 0.3}),
        "= 1.1; expected at most 1",
    ),
    "a broken pattern": (("experiment.datasets.imdb.remove", "("), r"remove: '\(' is not a regular expression"),
    "more frozen than there is": (("experiment.finetune.imdb.freeze_layers", 5), "freeze_layers = 5, .* has 4 blocks"),
    "a repeated label": (("experiment.datasets.imdb.labels", ["a", "a"]), "repeat a name"),
    "no seed": (("experiment.seeds", []), "experiment.seeds"),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
def test_a_bad_setting_is_named(values, change, message):
    with pytest.raises(ConfigError, match=message):
        load_study(changed(values, change))


def test_all_problems_come_in_one_message(values):
    bad = changed(values, ("execution.gpu", 1), ("experiment.seeds", "many"), ("experiment.pretrain.batch_size", 0))
    with pytest.raises(ConfigError) as error:
        load_study(bad)
    for place in ("execution.gpu: unknown key", "experiment.seeds", "experiment.pretrain.batch_size"):
        assert place in str(error.value)


def test_a_mechanism_may_carry_a_suffix(values):
    masked = {"kind": "lsh", "num_hashes": 2, "chunk_size": 64, "mask_within_chunks": True}
    experiment = load_study(changed(values, ("experiment.mechanisms.lsh-h2-c64-masked", masked))).experiment
    assert experiment.parameters_of("lsh-h2-c64-masked").mask_within_chunks


def test_the_reference_is_up_to_date(repository):
    assert (repository / "config/README.md").read_text() == config_readme(), "run: python scripts/config_reference.py"
    assert (repository / "config/schema.json").read_text() == config_schema(), "run: python scripts/config_reference.py"
    json.loads(config_schema())

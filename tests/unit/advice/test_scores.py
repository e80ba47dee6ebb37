import pytest
from small_studies import study

from lib.advice.scores import PUBLISHED_TOKENS, scores_near
from lib.study.configuration import load_study, read_layers


@pytest.fixture(scope="module")
def graph():
    return study().graph


def test_published_values_count_at_their_length(graph):
    scores = scores_near(graph, "finetune", 16_384)
    assert (scores.dataset, scores.max_tokens) == ("arxiv", 16_384)
    assert scores.by_model["lsh-h4-c128"] == 87.40
    assert scores.by_model["tfidf"] == 83.62
    assert len(scores.by_model) == 11  # the grid, the baseline and the hybrid


def test_published_values_of_the_nearest_length_count(graph):
    nearest = {256: "imdb", 1024: "imdb", 2048: "hyperpartisan", 6000: "hyperpartisan", 8192: "arxiv", 32_768: "arxiv"}
    assert {limit: scores_near(graph, "finetune", limit).dataset for limit in nearest} == nearest
    assert [scores_near(graph, "finetune", limit) for limit in (128, 65_536)] == [None, None]


@pytest.mark.parametrize(("limit", "missing"), [(256, {"lsh-h2-c128", "lsh-h4-c128"}), (512, set())])
def test_published_values_where_a_mechanism_is_exact(repository, limit, missing):
    """The published reviews have 512 tokens. Two chunks of 128 tokens are exact attention."""
    graph = load_study(read_layers([repository / "config" / "config.yaml"])).graph
    lengths = {name: dataset.max_tokens for name, dataset in graph.experiment.datasets.items()}
    assert lengths == PUBLISHED_TOKENS
    lsh = {model for model in scores_near(graph, "finetune", 16_384).by_model if model.startswith("lsh")}
    assert lsh - set(scores_near(graph, "finetune", limit).by_model) == missing

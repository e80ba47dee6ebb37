"""Which heads point from a word to its related one: sentences, words of pieces, and attention made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from torch import nn

from lib.analysis.computations.subject import Subject
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.vocabularies import train_wordpiece
from studies.published.analysis.computations.relations import (
    OFFSETS,
    analyse,
    related,
    scores_of,
    word_attention,
    words_of,
)
from studies.published.analysis.computations.sentences import (
    ADJECTIVES,
    DETERMINERS,
    MEN,
    NAMES,
    NOUNS,
    VERBS,
    generate,
    text_of,
)
from studies.published.analysis.relations import NAMES as RELATIONS

SENTENCES = 60
SEED = 5


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """WordPiece that knows some of the words, and spells the others."""
    folder = tmp_path_factory.mktemp("tokenizer")
    texts = [text_of(each)[0] for half in range(2) for each in generate(SENTENCES // 2, half, SEED)]
    train_wordpiece(folder, texts, vocab_size=150)
    return TextTokenizer.load(folder).backend


class HandMade(nn.Module):
    """Attends by rules, one per head: each maps (sentence, half) to the word that each word attends to."""

    def __init__(self, tokenizer, rules):
        super().__init__()
        self.maps = {}
        for half in range(2):
            for sentence in generate(SENTENCES // 2, half, SEED):
                text, spans = text_of(sentence)
                encoded = tokenizer(text, return_offsets_mapping=True)
                words = words_of(encoded["offset_mapping"], spans)
                size = len(encoded["input_ids"])
                maps = torch.full((1, len(rules), size, size), 0.1 / size)
                maps[..., 0] += 0.6  # [CLS] gets most, which must not count
                maps[:, :, range(size), range(size)] += 0.5  # nor does what a token gives to itself
                for head, rule in enumerate(rules):
                    for query, key in rule(sentence, half):
                        for token in words[query]:
                            maps[0, head, token, words[key][-1]] += 0.2  # to one piece of the word
                self.maps[tuple(encoded["input_ids"])] = maps
        self.base_model = self.read

    def read(self, input_ids, output_attentions):
        assert output_attentions
        return SimpleNamespace(attentions=(self.maps[tuple(input_ids[0].tolist())],))


def pairs(sentence, kind):
    return [(dependent, head) for name, dependent, head in sentence.relations if name == kind]


def to_noun(sentence, half):
    return pairs(sentence, "determiner")


def from_antecedent(sentence, half):
    return [(head, dependent) for dependent, head in pairs(sentence, "pronoun")]


def to_verb_in_one_half(wanted):
    return lambda sentence, half: pairs(sentence, "subject") if half == wanted else []


def following(sentence, half):
    return [(place, place + 1) for place in range(len(sentence.words) - 1)]


def subject_of(tokenizer, *rules):
    model = HandMade(tokenizer, rules)
    return Subject("hand", "none", SEED, tokenizer, Dataset.from_dict({}), model, lambda model: None)


def chosen(frame, relation, by="head"):
    rows = frame[(frame["relation"] == relation) & frame["chosen"] & (frame["by"] == by) & (frame["when"] == "after")]
    assert len(rows) == 1
    return rows.iloc[0]


def test_heads_that_point_to_the_related_word(tokenizer):
    frame = analyse(subject_of(tokenizer, following, to_noun, from_antecedent), sentences=SENTENCES)
    noun, antecedent = chosen(frame, "determiner"), chosen(frame, "pronoun")
    assert (noun["direction"], noun["layer"], noun["head"], noun["accuracy"]) == ("attends", 0, 1, 1)
    assert (antecedent["direction"], antecedent["head"], antecedent["accuracy"]) == ("is attended", 2, 1)
    offset = chosen(frame, "determiner", "offset")
    assert noun["difference"] == pytest.approx(1 - offset["accuracy"])
    assert noun["difference_low"] > 0
    assert noun["p"] < 0.001
    assert noun["low"] < noun["high"] == 1
    assert len(frame) == 2 * len(RELATIONS) * (2 * 3 + len(OFFSETS))


def test_head_of_one_offset(tokenizer):
    frame = analyse(subject_of(tokenizer, following), sentences=SENTENCES)
    by_head = frame[(frame["by"] == "head") & (frame["direction"] == "attends") & (frame["when"] == "after")]
    by_offset = frame[(frame["offset"] == 1) & (frame["when"] == "after")]
    assert by_head["accuracy"].tolist() == by_offset["accuracy"].tolist()
    for relation in RELATIONS:
        best = frame.loc[(frame["relation"] == relation) & (frame["by"] == "offset"), "choosing"].max()
        assert chosen(frame, relation, "offset")["choosing"] == best


def test_head_that_is_right_on_one_half(tokenizer):
    frame = analyse(subject_of(tokenizer, to_verb_in_one_half(0)), sentences=SENTENCES)
    lucky = chosen(frame, "subject")
    assert (lucky["direction"], lucky["choosing"]) == ("attends", 1)
    assert lucky["accuracy"] < 0.5
    frame = analyse(subject_of(tokenizer, to_verb_in_one_half(1), following), sentences=SENTENCES)
    assert chosen(frame, "subject")["head"] == 1, "what it does on the scoring half does not choose it"


def test_attention_of_words():
    maps = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]])
    found = word_attention(maps[None], [[1], [2, 3]])[0]  # the first token is [CLS]
    assert found == pytest.approx(np.array([[0.3, 0.3], [(0.25 + 0.1) / 2, (0.5 + 0.2) / 2]]))
    assert related(np.array([[0.9, 0.05, 0.02], [0.3, 0.6, 0.1], [0.1, 0.2, 0.7]])).tolist() == [1, 0, 1]


def test_relations_in_generated_sentences():
    found = [sentence for half in range(2) for sentence in generate(300, half, SEED)]
    distances = {kind: set() for kind in RELATIONS}
    for words, relations in found:
        assert words[-1] == "."
        for kind, dependent, head in relations:
            distances[kind].add(head - dependent)
            first, second = words[dependent], words[head]
            if kind == "determiner":
                assert first in (*DETERMINERS, "an")
                assert second not in ADJECTIVES
            elif kind == "adjective":
                assert first in ADJECTIVES
                assert second not in ADJECTIVES
            elif kind == "subject":
                assert second in VERBS
            elif kind == "pronoun":
                assert first == ("he" if second in MEN else "she")
            else:
                assert first == second
                assert first in NAMES
    assert {kind: len(found) >= 2 for kind, found in distances.items()} == dict.fromkeys(RELATIONS, True)
    assert found == [sentence for half in range(2) for sentence in generate(300, half, SEED)]


def test_words_of_both_halves():
    halves = []
    for half in range(2):
        found = generate(300, half, SEED)
        before_nouns = {sentence.words[place] for sentence in found for place, _ in pairs(sentence, "adjective")}
        words = {word for sentence in found for word in sentence.words}
        halves.append(before_nouns | (words & {*NOUNS, *VERBS, *NAMES}))
    assert not halves[0] & halves[1]
    assert all(half & {*NOUNS} for half in halves)


def test_offsets_of_pronouns(tokenizer):
    scores, _ = scores_of(HandMade(tokenizer, [following]), tokenizer, generate(SENTENCES // 2, 0, SEED))
    for kind in ("pronoun", "name", "subject"):
        assert scores[kind].accuracy()[2:].max() < 0.8, kind

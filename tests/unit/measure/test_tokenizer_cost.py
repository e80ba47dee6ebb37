from lib.measure.tokenizer_cost import tokenizer_cost


def test_both_ways_are_measured(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word", "other", "."]))
    table = tokenizer_cost(["word other. " * 200, "other word"] * 300, vocabulary, max_tokens=16)
    assert table["texts"].tolist() == ["whole", "cut"]
    assert table["max_tokens"].tolist() == [16, 16]
    assert (table["megabytes_per_second"] > 0).all()
    assert table["megabytes_per_second"][1] > table["megabytes_per_second"][0]

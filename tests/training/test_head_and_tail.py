"""What a run keeps of long documents, its model keeps of those that it is given by hand."""

import shutil

import pandas as pd

from lib.tokens.cutting import note_cut
from lib.tokens.tokenizer import TextTokenizer
from lib.tokens.tokenizing import tokenize_dataset
from lib.training.predict import predict
from lib.training.run import train


def scores(folder):
    """Return the probability of the second class by document of test."""
    recorded = pd.read_parquet(folder / "predictions.parquet").query("split == 'test'").set_index("id")
    return recorded["probabilities"].map(lambda each: each[1])


def test_head_and_tail_are_kept_by_hand_as_in_the_run(run_of, corpus, tmp_path):
    """Documents of up to 66 tokens, of which 12 stay; the first ones alone give other scores."""
    tokenizer = TextTokenizer.load(corpus / "tokenizer")
    tokenizer.backend.save_pretrained(tmp_path / "ends")
    note_cut(tmp_path / "ends", "head_tail")
    splits = ("train", "validation", "test")
    tokenize_dataset(
        {split: corpus / f"{split}.parquet" for split in splits},
        TextTokenizer.load(tmp_path / "ends"),
        max_tokens=12,
        folder=tmp_path / "tokens",
        lengths=tmp_path / "lengths.json",
    )
    data = {split: str(tmp_path / "tokens" / split) for split in splits}
    run = run_of("finetune", tokenizer=str(tmp_path / "ends"), max_tokens=12, data=data, recipe={"epochs": 1})
    train(run, tmp_path / "out")
    predict(tmp_path / "out" / "model", corpus / "test.parquet", tmp_path / "found.csv")
    found = pd.read_csv(tmp_path / "found.csv").set_index("id")["high"]
    expected = scores(tmp_path / "out")[found.index]
    pd.testing.assert_series_equal(found, expected, check_names=False, check_dtype=False, atol=1e-6, rtol=1e-5)
    note = shutil.copytree(tmp_path / "out" / "model", tmp_path / "copy") / "tokenizer_config.json"
    note.write_text(note.read_text().replace('"head_tail"', '"head"'))
    predict(tmp_path / "copy", corpus / "test.parquet", tmp_path / "other.csv")
    other = pd.read_csv(tmp_path / "other.csv").set_index("id")["high"]
    assert (found - other).abs().max() > 1e-4

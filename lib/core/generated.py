"""Raw files of the generated corpora, by part, in dataset order: what `lib.data.generated` writes."""

RAW_FILES: dict[str, dict[str, dict[str, list[str]]]] = {
    "wikipedia": {
        "files": {"train": [f"train-{shard:05d}-of-00003.parquet" for shard in range(3)]},
        "ground_truth": {},
    },
    "imdb": {"files": {"test": ["test.parquet"], "train": ["train.parquet"]}, "ground_truth": {}},
    "hyperpartisan": {
        "files": {"train": ["articles-training.xml.gz"], "validation": ["articles-validation.xml.gz"]},
        "ground_truth": {"train": ["ground-truth-training.xml.gz"], "validation": ["ground-truth-validation.xml.gz"]},
    },
    "arxiv": {
        "files": {part: [f"{part}.parquet"] for part in ("test", "train", "validation")},
        "ground_truth": {},
    },
}

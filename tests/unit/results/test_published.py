from lib.results.published import published


def test_published_grid_is_complete():
    counts = published().groupby("stage").size()
    assert counts.to_dict() == {"pretrain": 9, "tapt": 27, "finetune": 30}
    trained = published().query("model != 'tfidf'")
    assert trained[["peak_memory_gib", "minutes_per_epoch"]].notna().all(axis=None)
    assert (trained["loss"].notna() ^ trained["f1_macro_percent"].notna()).all()

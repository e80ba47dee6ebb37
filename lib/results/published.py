"""The values that the reproduced study printed, to stand beside ours."""

from pathlib import Path

import pandas as pd

NOTE = (
    "Published: one NVIDIA A100 (40 GB), one seed. Its minutes are the wall time of the whole run by epochs, "
    "evaluations included; ours leave them out. It pretrained in dataset order, the short part before the long one in "
    "every epoch; here the order is drawn anew each epoch and grouped by length, so losses are comparable, not equal."
)


def published() -> pd.DataFrame:
    """Return the study's tables 4.5 (pretraining), 4.6 (adaptation) and 4.10 (fine-tuning), one row per run.

    Returns:
        `stage`, `model`, `dataset`, `peak_memory_gib` (GPU), `minutes_per_epoch`, `loss` (lowest mean training loss of
        an epoch) and `f1_macro_percent` (on test). The baseline is the model `tfidf` of the stage `finetune`.

    Source: the study's tables 4.5, 4.6 and 4.10; what it calls GB are GiB.
    """
    return pd.read_csv(Path(__file__).with_name("published.csv"))

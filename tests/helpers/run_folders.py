"""Results of a run that needs no tokens, to be published."""

from lib.core.record import RunRecord
from lib.training.record import write_record


def finish(folders, score=1.0, pause=lambda: None):
    """Leave finished results where they are published from, with a pause before every step."""
    pause()
    staged = folders.stage()
    pause()
    # As transformers does, also where the folder is gone.
    (staged / "model").mkdir(parents=True, exist_ok=True)
    pause()
    (staged / "model" / "weights").write_text(str(score))
    pause()
    record = dict.fromkeys(("epochs", "steps", "tokens", "seconds", "peak_memory_mb"), 0) | folders.run.model_dump(
        include={"stage", "model", "dataset", "seed", "precision"}
    )
    speeds = dict.fromkeys(("seconds_per_epoch", "tokens_per_second", "hardware", "git_commit"))
    record |= speeds | {"task": folders.run.task.kind, "parents": folders.parents, "parameters": {}, "device": "cpu"}
    record |= {"peak_memory_kind": "resident", "versions": {}, "metrics": {"test_f1_macro": score}}
    write_record(RunRecord.model_validate(record), staged, folders.code)
    pause()
    return staged

"""What names a run, everywhere: in paths, records, heartbeats and tables."""

from typing import NamedTuple


class RunId(NamedTuple):
    """Name of a run: one execution of a stage."""

    stage: str
    model: str
    dataset: str
    """Entry of the stage's `data`: a corpus or a dataset."""
    seed: int
    variant: str = ""
    """Which of the settings that the stage searches; empty without a search."""

    @property
    def place(self) -> str:
        """The part of its paths that all seeds share: `finetune/sdpa/imdb`."""
        return "/".join(filter(None, (self.stage, self.model, self.dataset, self.variant)))

    @property
    def path(self) -> str:
        """Its folder below those of all runs: `finetune/sdpa/imdb/seed-420`."""
        return f"{self.place}/seed-{self.seed}"

"""The name of a run in paths, records, heartbeats and tables."""

from typing import NamedTuple, Self

from pydantic import BaseModel

from lib.core.search_space import Setting, variant_name


class RunId(NamedTuple):
    """Name of a run: one execution of a stage."""

    stage: str
    model: str
    dataset: str
    """Entry of the stage's `data`: a corpus or a dataset."""
    seed: int
    variant: str = ""
    """The settings of the search that the run uses; empty without a search."""

    @property
    def place(self) -> str:
        """The part of the path that all seeds share: `finetune/sdpa/imdb`."""
        return "/".join(filter(None, (self.stage, self.model, self.dataset, self.variant)))

    @property
    def path(self) -> str:
        """Folder of the run, relative to that of all runs: `finetune/sdpa/imdb/seed-420`."""
        return f"{self.place}/seed-{self.seed}"


class NamesRun(BaseModel):
    """Base of the heartbeat and the record of a run: the fields that name it."""

    stage: str
    model: str
    """Row of the tables."""
    dataset: str
    variant: dict[str, Setting] = {}
    """Settings by dotted name that distinguish it from other runs of a search; not part of the model's name."""
    seed: int

    @classmethod
    def of(cls, run: object) -> Self:
        """Return the name of a run from its settings, an object with these attributes."""
        return cls.model_validate(run, from_attributes=True)

    @property
    def id(self) -> RunId:
        """The name of the run as one value."""
        return RunId(self.stage, self.model, self.dataset, self.seed, variant_name(self.variant))

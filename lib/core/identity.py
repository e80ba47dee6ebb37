"""What names a run, everywhere: in paths, records, heartbeats and tables."""

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
    """Which of the settings that the stage searches; empty without a search."""

    @property
    def place(self) -> str:
        """The part of its paths that all seeds share: `finetune/sdpa/imdb`."""
        return "/".join(filter(None, (self.stage, self.model, self.dataset, self.variant)))

    @property
    def path(self) -> str:
        """Its folder below those of all runs: `finetune/sdpa/imdb/seed-420`."""
        return f"{self.place}/seed-{self.seed}"


class NamesRun(BaseModel):
    """Base of what is written about one run, its heartbeat and its record: the fields that name it come first."""

    stage: str
    model: str
    """Row of the tables."""
    dataset: str
    variant: dict[str, Setting] = {}
    """Settings by dotted name that tell it from other runs of a search; they are no part of the model's name."""
    seed: int

    @classmethod
    def of(cls, run: object) -> Self:
        """Return the name that the settings of a run, an object with these attributes, give it."""
        return cls.model_validate(run, from_attributes=True)

    @property
    def id(self) -> RunId:
        """The run's name as one value."""
        return RunId(self.stage, self.model, self.dataset, self.seed, variant_name(self.variant))

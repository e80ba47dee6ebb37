"""The whole configuration: `experiment` says what is compared, `execution` how the work is done."""

from typing import Any

from pydantic import Field, NonNegativeInt, ValidationError, field_validator, model_validator

from lib.backbones.encoder.settings import Encoder
from lib.core.errors import ConfigError
from lib.core.kinds import MECHANISMS, MechanismParameters
from lib.core.settings import Section, describe
from lib.core.settings.baseline import Baseline
from lib.core.settings.data import Dataset, PretrainingCorpus, Tokenizer
from lib.core.settings.execution import Execution
from lib.core.settings.finetuning import Finetuning
from lib.core.settings.training import Masking, Optimisation, Precision

SWAP = "-to-"


class Experiment(Section):
    """What is compared: mechanisms, data, recipe."""

    seeds: list[NonNegativeInt] = Field(min_length=1, description="Seeds; every run is made once for each.")
    precision: Precision = Field("bf16", description="Arithmetic of the forward pass; `fp16` needs a GPU.")
    mechanisms: dict[str, dict[str, Any]] = Field(
        description="Attention mechanisms by name. A name is the canonical spelling of its parameters (`lsh-h2-c64`), "
        "with a suffix if two entries would share it (`lsh-h2-c64-masked`)."
    )
    models: list[str] | None = Field(
        None,
        description="Rows of the tables, in order: a mechanism, or `<pretrained with>-to-<adapted with>` "
        "(`sdpa-to-favor-m128`); null = every mechanism.",
    )
    encoder: Encoder
    tokenizer: Tokenizer
    wikipedia: PretrainingCorpus = Field(description="The pretraining corpus.")
    datasets: dict[str, Dataset] = Field(description="Labelled datasets by name.")
    masking: Masking = Field(default_factory=Masking)
    pretrain: Optimisation = Field(description="Masked language modelling on the pretraining corpus.")
    tapt: dict[str, Optimisation] = Field(description="Masked language modelling on a dataset's training texts.")
    finetune: dict[str, Finetuning] = Field(description="Classification, by dataset.")
    baseline: Baseline = Field(default_factory=Baseline)

    @model_validator(mode="before")
    @classmethod
    def _null_removes_an_entry(cls, values: Any) -> Any:
        """Drop entries that are null: how a file laid over another removes what that one has."""
        if not isinstance(values, dict):
            return values
        dropped = {name for name, entry in (values.get("datasets") or {}).items() if entry is None}
        return values | {
            key: {name: entry for name, entry in values[key].items() if entry is not None and name not in dropped}
            for key in ("mechanisms", "datasets", "tapt", "finetune")
            if isinstance(values.get(key), dict)
        }

    @field_validator("mechanisms")
    @classmethod
    def _names_tell_the_parameters(cls, entries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        problems = []
        for name, values in entries.items():
            try:
                canonical = MECHANISMS.parse(values).name()
            except ConfigError as error:
                problems.append(f"{name}: {error}")
            except ValidationError as error:
                problems += [f"{name}.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            else:
                if (name != canonical and not name.startswith(f"{canonical}-")) or SWAP in name:
                    problems.append(
                        f"{name}: the name contradicts the parameters, which spell {canonical}. "
                        f"Call it '{canonical}' or '{canonical}-<suffix>', or change the parameters."
                    )
        if problems:
            raise ValueError("; ".join(problems))
        return entries

    @model_validator(mode="after")
    def _parts_fit(self) -> "Experiment":
        problems = []
        for model in self.models or []:
            for mechanism in (stages := model.split(SWAP)):
                if mechanism not in self.mechanisms:
                    problems.append(f"models: '{model}' names '{mechanism}'; known: {', '.join(self.mechanisms)}")
            if len(stages) == 2 and set(stages) <= set(self.mechanisms):
                before, after = (self.parameters_of(mechanism) for mechanism in stages)
                if before.shares_query_and_key != after.shares_query_and_key:
                    problems.append(f"models: '{model}' cannot hand over weights, since only one shares query and key")
        for stage in ("tapt", "finetune"):
            entries = getattr(self, stage)
            if missing := sorted(set(self.datasets) - set(entries)):
                problems.append(f"{stage}: no section for the dataset(s) {', '.join(missing)}")
            if unknown := sorted(set(entries) - set(self.datasets)):
                problems.append(f"{stage}: {', '.join(unknown)} is not among the datasets {', '.join(self.datasets)}")
        for name, finetuning in self.finetune.items():
            if finetuning.freeze_layers > self.encoder.num_hidden_layers:
                problems.append(
                    f"finetune.{name}.freeze_layers = {finetuning.freeze_layers}, but the encoder has "
                    f"{self.encoder.num_hidden_layers} blocks"
                )
        if self.encoder.position_embedding_type == "learned":
            slices = (self.wikipedia.short, self.wikipedia.long, self.wikipedia.held_out)
            longest = max([part.max_tokens for part in slices] + [d.max_tokens for d in self.datasets.values()])
            if longest > self.encoder.max_position_embeddings:
                problems.append(
                    f"encoder.max_position_embeddings = {self.encoder.max_position_embeddings} does not reach "
                    f"the longest max_tokens, {longest}; raise it, or use rope or sinusoidal positions"
                )
        for name in self.mechanisms:
            if self.encoder.attention_dropout and not self.parameters_of(name).takes_attention_dropout:
                problems.append(
                    f"encoder.attention_dropout = {self.encoder.attention_dropout}, but {name} has no attention "
                    "weights to drop; set it to 0"
                )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def parameters_of(self, mechanism: str) -> MechanismParameters:
        """Return the typed parameters of the mechanism called `mechanism`."""
        return MECHANISMS.parse(self.mechanisms[mechanism])

    @property
    def model_names(self) -> list[str]:
        """Rows of the tables, in order."""
        return self.models or list(self.mechanisms)


class Study(Section):
    """A complete configuration."""

    experiment: Experiment
    execution: Execution = Field(default_factory=Execution)


def load_study(values: dict[str, Any]) -> Study:
    """Return the checked configuration.

    Raises:
        ConfigError: with every problem found, one a line.
    """
    try:
        return Study.model_validate(values)
    except ValidationError as error:
        raise ConfigError(describe(error)) from error

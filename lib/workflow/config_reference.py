"""The reference of every configuration key, generated from the typed settings."""

import json
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from lib.core.files import write_text
from lib.core.kinds import MECHANISMS
from lib.core.settings.study import Study

INTRODUCTION = """\
# Configuration

`config.yaml` is the full grid; `demo.yaml` is laid over it (`snakemake --configfile config/demo.yaml`), and so is any
file of your own: write only what differs. Mappings are merged, lists and values replaced; null removes a mechanism or
a dataset. Unknown keys are errors.

`experiment` says what is compared: changing it makes the runs stale that read the changed key. `execution` says how the
work is done: changing it makes nothing stale.

This page and `schema.json` are generated from `lib/core/settings` by `python scripts/config_reference.py`.

## Your own files

Point a corpus at them with `source: local`; the suffix decides the format (`.parquet`, `.csv`, `.tsv`, `.jsonl`,
`.txt` with one document a line, `.xml` as in SemEval-2019 task 4; plain, `.gz`, or alone in a `.zip`):

```yaml
experiment:
  datasets:
    imdb:
      source: local
      local:
        files: {train: [data/reviews-*.csv.gz]}
      text: review
      label: sentiment
      labels: [negative, positive]
```

## Names

Where transformers has a usual name for a setting of the study that is reproduced, it is used here.

| study | here |
| --- | --- |
| `embedding_dim` | `encoder.hidden_size` |
| `num_layers` | `encoder.num_hidden_layers` |
| `mlp_size` | `encoder.intermediate_size` |
| `mlp_dropout`, `embedding_dropout` | `encoder.mlp_dropout`, `encoder.embedding_dropout` |
| `pos_encoding` | `encoder.position_embedding_type` |
| `rope.rope_base`, `rope.rope_scale` | `encoder.rope_theta`, `encoder.rope_scale` |
| `attention_embedding_dim` | `encoder.attention_size` |
| `num_heads` | `encoder.num_attention_heads` |
| `projection_bias` | `encoder.attention_bias` |
| `attn_out_drop`, `attn_dropout` | `encoder.attention_output_dropout`, `encoder.attention_dropout` |
| `attention.kind` (`mha`, `lsh`, `favor`) | `mechanisms.<name>.kind` (`sdpa`, `lsh`, `favor`) |
| `mha.use_native_sdpa` | `mechanisms.<name>.use_native_sdpa` |
| `num_hashes`, `chunk_size`, `mask_within_chunks` | the same |
| `nb_features`, `ortho_features`, `redraw_interval`, `phi`, `stabilize`, `eps` | the same |
| `tie_mlm_weights` | `encoder.tie_word_embeddings` |
| `mask_p`, `mask_token_p`, `random_token_p` | `masking.mask_probability`, `masking.mask_token_probability`, \
`masking.random_token_probability` |
| `pooling`, `pooler_type`, `classifier_dropout` | `finetune.<dataset>.head.classifier_pooling`, `.classifier_head`, \
`.classifier_dropout` |
| `num_labels` | `datasets.<name>.labels` (their number) |
| `tokenizer.vocab_dir`, `max_length` | `tokenizer`, `datasets.<name>.max_tokens` |
| `epochs`, `learning_rate`, `warmup_ratio`, `min_lr_ratio`, `weight_decay`, `max_grad_norm` | the same |
| `batch_size` x `grad_accum_steps` | `batch_size`; the split follows from `execution.training.micro_batch_tokens` |
| `use_amp` | `precision` |
| `device` | `execution.training.device` |
| `head_lr_mult`, `backbone_lr_mult` | `head_lr_multiplier`, `backbone_lr_multiplier` |
| `freeze`, `freeze_n_layers`, `freeze_epochs`, `freeze_embeddings` | `freeze_layers` (0 = no), `freeze_epochs`, \
`freeze_embeddings` |
| `experiment.seed` | `seeds` |
| `resume.is_resume`, `checkpoint_path`, `load_only_model_state` | `start` of a run: `checkpoint`, \
`load_only_model_state` |
| `pretrained_exp.path` | `start.run` of a run |
| `use_wandb`, `wandb.entity`, `wandb.project` | `execution.training.report_to`, `.wandb_entity`, `.wandb_project` |
| `log_metrics_csv` | always |
"""


def config_readme() -> str:
    """Return the text of `config/README.md`."""
    sections = [INTRODUCTION, "## Every key\n"]
    for path, model in _sections(Study, ""):
        rows = [
            f"| `{name}` | {_type(field)} | {_default(field)} | {_description(field)} |"
            for name, field in model.model_fields.items()
            if not _nested(field.annotation)
        ]
        if rows:
            header = "| key | type | default | meaning |\n| --- | --- | --- | --- |"
            summary = (model.__doc__ or "").strip().splitlines()[0]
            sections.append(f"### `{path}`\n\n{summary}\n\n{header}\n" + "\n".join(rows) + "\n")
    return "\n".join(sections)


def config_schema() -> str:
    """Return the text of `config/schema.json`."""
    return json.dumps(Study.model_json_schema(), indent=2, sort_keys=True) + "\n"


def write_reference(folder: str | Path) -> None:
    """Write README.md and schema.json to `folder`."""
    write_text(Path(folder) / "README.md", config_readme())
    write_text(Path(folder) / "schema.json", config_schema())


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield every section below `model` with its place, those of the mechanisms included."""
    if path:
        yield path, model
    for name, field in model.model_fields.items():
        place = f"{path}.{name}" if path else name
        if place == "experiment.mechanisms":
            for kind in MECHANISMS.kinds():
                parameters = MECHANISMS.load(kind, "parameters").Parameters
                yield f"{place}.<name>` with `kind: {kind}", parameters
        for nested, several in _nested(field.annotation):
            yield from _sections(nested, f"{place}.<name>" if several else place)


def _nested(annotation: Any) -> list[tuple[type[BaseModel], bool]]:
    """Return the sections in a type, and whether they stand under names of the user's choice."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [(annotation, False)]
    if origin in (typing.Union, types.UnionType):
        return [section for argument in arguments for section in _nested(argument)]
    if origin is dict and isinstance(arguments[1], type) and issubclass(arguments[1], BaseModel):
        return [(arguments[1], True)]
    return []


def _type(field: FieldInfo) -> str:
    return f"`{_spelled(field.annotation)}`".replace("|", "\\|")


def _spelled(annotation: Any) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _spelled(arguments[0])
    if origin is typing.Literal:
        return ", ".join(str(argument) for argument in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join("null" if argument is type(None) else _spelled(argument) for argument in arguments)
    if origin in (list, dict):
        return f"{origin.__name__} of {_spelled(arguments[-1])}"
    names = {Any: "any value", str: "text", int: "integer", float: "number", bool: "true, false"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    return "" if value is PydanticUndefined else f"`{json.dumps(value)}`"


def _description(field: FieldInfo) -> str:
    return (field.description or "").replace("|", "\\|")

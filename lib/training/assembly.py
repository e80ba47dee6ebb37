"""From the settings of a run to its task, backbone, tokeniser and model with first weights."""

from typing import NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from lib.attention.contract import set_kernels
from lib.backbones.contract import TokenBackbone
from lib.backbones.parameters import BACKBONES
from lib.core.errors import RunError
from lib.core.randomness import derive_seed
from lib.data.tokenizer import TextTokenizer
from lib.study.run import RunSettings
from lib.tasks.contract import Task
from lib.tasks.parameters import TASKS
from lib.training.interruptions import explained_size


class Parts(NamedTuple):
    """What a run on tokens is made of."""

    task: Task
    backbone: TokenBackbone
    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel
    """With the weights that are drawn first, whatever the run starts from."""


@explained_size()
def assemble(run: RunSettings) -> Parts:
    """Return the parts of a run on tokens; the same run gives the same first weights.

    Raises:
        ProjectError: a part cannot be made as the settings say.
    """
    if run.tokenizer is None:
        raise RunError("tokenizer: missing. Expected the folder of one, since the run reads tokens.")
    task = TASKS.load(run.task.kind, "task").Task(run.task, labels=run.labels, seed=run.seed)
    backbone = BACKBONES.load(run.backbone.kind, "backbone").Backbone(run.backbone, seed=run.seed)
    tokenizer = TextTokenizer.load(run.tokenizer).backend
    # Initial weights and dropout draw from torch's global state.
    set_seed(derive_seed("weights", run.seed) % 2**32)
    model = task.model(backbone.config(tokenizer, task.model_options()))
    backbone.check(model)
    set_kernels(model, run.execution.kernels)
    return Parts(task, backbone, tokenizer, model)

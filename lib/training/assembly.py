"""Build task, backbone, tokeniser and initial model from the settings of a run."""

from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedModel, PreTrainedTokenizerBase, set_seed

from lib.attention.kernels import set_kernels
from lib.backbones.compiled import compile_blocks
from lib.backbones.contract import TokenBackbone
from lib.backbones.onednn import use_onednn
from lib.backbones.settings import BACKBONES
from lib.core.errors import RunError
from lib.core.randomness import derive_seed
from lib.study.run import RunSettings
from lib.tasks.contract import Task
from lib.tasks.settings import TASKS
from lib.tokens.tokenizer import PUBLISHED, TextTokenizer, read_core
from lib.training.interruptions import explained_size


class Components(NamedTuple):
    """The components of a run on tokens."""

    task: Task
    backbone: TokenBackbone
    tokenizer: PreTrainedTokenizerBase
    model: PreTrainedModel
    """The model with random weights; others are loaded later."""


@explained_size()
def assemble(run: RunSettings) -> Components:
    """Build the components of a run on tokens; the same run gives the same initial weights.

    Raises:
        ProjectError: a component cannot be built from the settings.
    """
    if run.tokenizer is None:
        raise RunError("tokenizer: missing. Expected the folder of a tokeniser, since the run reads tokens.")
    task = TASKS.load(run.task.kind, "task").Task(run.task, labels=run.labels, seed=run.seed)
    backbone = BACKBONES.load(run.backbone.kind, "backbone").Backbone(run.backbone, seed=run.seed)
    tokenizer = TextTokenizer.load(run.tokenizer).backend
    # Initial weights and dropout draw from torch's global state.
    set_seed(derive_seed("weights", run.seed) % 2**32)
    model = task.model(backbone.config(tokenizer, task.model_options()))
    backbone.check(model)
    set_kernels(model, run.execution.kernels)
    if run.execution.kernels == "auto":
        use_onednn(model)
    if run.execution.compile:
        compile_blocks(model)
    return Components(task, backbone, tokenizer, model)


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, folder: str | Path) -> None:
    """Refuse weights whose embeddings belong to another vocabulary than that of the run.

    Args:
        tokenizer: tokeniser of the run; may have additional tokens.
        folder: folder of the weights; without a tokeniser in it, nothing is checked.

    Raises:
        RunError: a token id has another token there.
    """
    if not (Path(folder) / PUBLISHED).is_file():
        return
    theirs = {number: token for token, number in read_core(Path(folder)).get_vocab().items()}
    ours = {number: token for token, number in tokenizer.get_vocab().items()}
    differing = sorted(number for number in ours.keys() & theirs.keys() if ours[number] != theirs[number])
    if differing:
        first = differing[0]
        raise RunError(
            f"{folder}: its embeddings belong to another vocabulary than the run's: token {first} is {theirs[first]!r} "
            f"there and {ours[first]!r} here, and so are {len(differing):,} of {len(theirs):,}. Give the model the "
            "tokeniser in the folder of its weights, or start from scratch."
        )

"""Which attention mechanism for long documents, at what price: a grid where only the attention differs."""

import logging
import sys
from importlib.util import find_spec
from types import ModuleType

from lib.core.extensions import ON_USE

# peft imports it wherever it is installed, and it then warns in every program that a CPU lacks some kernels of a GPU.
logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

# `import lib` must be enough for transformers to read a model folder of this project, as in
# `pipeline("text-classification", model=folder)`, in either order of the imports. Yet it must not import
# torch or transformers, since the workflow imports lib too. So the models are registered at the moment at which
# transformers' Auto classes come into being.


def _register_configurations(_: ModuleType) -> None:
    from lib.backbones.settings import BACKBONES  # it imports lib

    for kind in BACKBONES.kinds():
        if BACKBONES.has(kind, "configuration"):
            BACKBONES.load(kind, "configuration")


def _register_models(_: ModuleType) -> None:
    from lib.backbones.registration import register_models

    register_models()


if find_spec("wrapt"):  # what measures on a bare machine makes its models itself
    import wrapt

    wrapt.register_post_import_hook(_register_configurations, "transformers.models.auto.configuration_auto")
    wrapt.register_post_import_hook(_register_models, "transformers.models.auto.modeling_auto")

    def _register_again() -> None:
        for name, register in (("configuration", _register_configurations), ("modeling", _register_models)):
            if module := sys.modules.get(f"transformers.models.auto.{name}_auto"):
                register(module)

    ON_USE.append(_register_again)

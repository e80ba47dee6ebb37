"""Which attention mechanism for long documents, at what price: a grid where only the attention differs.

Its code calls the package `lib`, the folder of a clone. Where it is installed, the folder is `attention_grid`. Both
names work in both places and mean the same modules, so that no class exists twice.
"""

import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


class _OtherName(MetaPathFinder, Loader):
    """Finds the modules of the package under the other of its names than that of its folder."""

    other = "attention_grid" if __name__ == "lib" else "lib"

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        package, _, rest = fullname.partition(".")
        found = find_spec(f"{__name__}.{rest}") if package == self.other else None
        return found and ModuleSpec(fullname, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(__name__ + spec.name.removeprefix(self.other))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import has just put that of the other name there.
        module.__spec__ = module.__spec__.loader_state  # type: ignore[union-attr]


if (foreign := sys.modules.setdefault("lib", sys.modules[__name__])) is not sys.modules[__name__]:
    raise ImportError(f"{__name__} calls itself lib, too, and this process has {foreign!r}. Use another process.")
sys.modules[_OtherName.other] = sys.modules[__name__]
sys.meta_path.insert(0, _OtherName())

from lib.core.extensions import ON_USE  # noqa: E402 - by either name

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

"""Register the models of every backbone with transformers' Auto classes, so that they can load their folders.

Called by the hook in `lib/__init__.py` alone. Nothing else imports every backbone and every head.
"""

import importlib
import pkgutil

import transformers

from lib.backbones import heads
from lib.backbones.heads.model import TaskModel
from lib.backbones.settings import BACKBONES


def register_models() -> None:
    """Register every backbone's model without a head, and one with each head that it has."""
    for kind in BACKBONES.kinds():
        if BACKBONES.has(kind, "model"):
            model = BACKBONES.load(kind, "model").Model
            transformers.AutoModel.register(model.config_class, model)
            own = BACKBONES.settings(kind).own_heads
            for head in [BACKBONES.load(kind, name).Head for name in own] or _shared_heads():
                with_head = head if own else head.on(model)
                getattr(transformers, head.auto_model).register(model.config_class, with_head)


def _shared_heads() -> list[type[TaskModel]]:
    modules = [
        importlib.import_module(f"{heads.__name__}.{found.name}") for found in pkgutil.iter_modules(heads.__path__)
    ]
    return [module.Head for module in modules if hasattr(module, "Head")]

"""Register the models of every backbone with transformers' Auto classes, so that they can load their folders.

Called by the hooks in `lib/__init__.py` alone, again when an extension comes into use. Nothing else imports every
backbone and every head.
"""

import importlib
import pkgutil

import transformers

from lib.backbones.heads.model import TaskModel
from lib.backbones.settings import BACKBONES
from lib.core.extensions import packages


def register_models() -> None:
    """Register every backbone's model without a head, and one with each head that it has."""
    for kind in BACKBONES.kinds():
        if BACKBONES.has(kind, "model"):
            model = BACKBONES.load(kind, "model").Model
            transformers.AutoModel.register(model.config_class, model, exist_ok=True)
            own = BACKBONES.settings(kind).own_heads
            for head in [BACKBONES.load(kind, name).Head for name in own] or _shared_heads():
                with_head = head if own else head.on(model)
                getattr(transformers, head.auto_model).register(model.config_class, with_head, exist_ok=True)


def _shared_heads() -> list[type[TaskModel]]:
    modules = [
        importlib.import_module(f"{package}.{found.name}")
        for package in packages("lib.backbones.heads")
        for found in pkgutil.iter_modules(importlib.import_module(package).__path__)
    ]
    return [module.Head for module in modules if hasattr(module, "Head")]

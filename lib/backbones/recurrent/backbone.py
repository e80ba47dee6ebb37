"""The recurrent encoder as a backbone of runs."""

from lib.backbones import contract
from lib.backbones.recurrent.model import RecurrentModel


class Backbone(contract.TokenBackbone):
    """Recurrent encoder, in one direction or in both. It draws nothing of its own."""

    model_class = RecurrentModel

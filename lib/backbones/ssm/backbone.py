"""The state-space encoder as a backbone of runs."""

from lib.backbones import contract
from lib.backbones.ssm.model import SsmModel


class Backbone(contract.TokenBackbone):
    """Bidirectional state-space encoder. It has no random draws of its own."""

    model_class = SsmModel

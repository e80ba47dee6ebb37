"""The state-space encoder as a backbone of runs."""

from lib.backbones import contract
from lib.backbones.ssm.model import SsmModel


class Backbone(contract.TokenBackbone):
    """Bidirectional state-space encoder, some of whose layers may attend."""

    model_class = SsmModel

"""Makes transformers' Auto classes know these models; imported by the hook in `lib/__init__.py` alone.

Apart from the models, so that none of them depends on the others.
"""

from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTextEncoding,
    AutoModelForTokenClassification,
)

from lib.backbones.pretrained.configuration import PretrainedBackboneConfig
from lib.backbones.pretrained.masked_lm import PretrainedForMaskedLM
from lib.backbones.pretrained.model import PretrainedBackboneModel
from lib.backbones.pretrained.sequence_classification import PretrainedForSequenceClassification
from lib.backbones.pretrained.text_encoding import PretrainedForTextEncoding
from lib.backbones.pretrained.token_classification import PretrainedForTokenClassification

AutoModel.register(PretrainedBackboneConfig, PretrainedBackboneModel)
AutoModelForMaskedLM.register(PretrainedBackboneConfig, PretrainedForMaskedLM)
AutoModelForSequenceClassification.register(PretrainedBackboneConfig, PretrainedForSequenceClassification)
AutoModelForTextEncoding.register(PretrainedBackboneConfig, PretrainedForTextEncoding)
AutoModelForTokenClassification.register(PretrainedBackboneConfig, PretrainedForTokenClassification)

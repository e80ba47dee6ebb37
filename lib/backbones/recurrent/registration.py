"""Makes transformers' Auto classes know the recurrent models; imported by the hook in `lib/__init__.py` alone.

Apart from the models, so that none of them depends on the others.
"""

from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTextEncoding,
    AutoModelForTokenClassification,
)

from lib.backbones.recurrent.configuration import RecurrentConfig
from lib.backbones.recurrent.masked_lm import RecurrentForMaskedLM
from lib.backbones.recurrent.model import RecurrentModel
from lib.backbones.recurrent.sequence_classification import RecurrentForSequenceClassification
from lib.backbones.recurrent.text_encoding import RecurrentForTextEncoding
from lib.backbones.recurrent.token_classification import RecurrentForTokenClassification

AutoModel.register(RecurrentConfig, RecurrentModel)
AutoModelForMaskedLM.register(RecurrentConfig, RecurrentForMaskedLM)
AutoModelForSequenceClassification.register(RecurrentConfig, RecurrentForSequenceClassification)
AutoModelForTextEncoding.register(RecurrentConfig, RecurrentForTextEncoding)
AutoModelForTokenClassification.register(RecurrentConfig, RecurrentForTokenClassification)

"""Makes transformers' Auto classes know the encoder's models; imported by the hook in `lib/__init__.py` alone.

Apart from the models, so that none of them depends on the others.
"""

from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTextEncoding,
    AutoModelForTokenClassification,
)

from lib.backbones.encoder.configuration import EncoderConfig
from lib.backbones.encoder.masked_lm import EncoderForMaskedLM
from lib.backbones.encoder.model import EncoderModel
from lib.backbones.encoder.sequence_classification import EncoderForSequenceClassification
from lib.backbones.encoder.text_encoding import EncoderForTextEncoding
from lib.backbones.encoder.token_classification import EncoderForTokenClassification

AutoModel.register(EncoderConfig, EncoderModel)
AutoModelForMaskedLM.register(EncoderConfig, EncoderForMaskedLM)
AutoModelForSequenceClassification.register(EncoderConfig, EncoderForSequenceClassification)
AutoModelForTextEncoding.register(EncoderConfig, EncoderForTextEncoding)
AutoModelForTokenClassification.register(EncoderConfig, EncoderForTokenClassification)

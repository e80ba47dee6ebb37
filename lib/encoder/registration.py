"""Makes transformers' Auto classes know the encoder's models; imported by the hook in `lib/__init__.py` alone.

Apart from the models, so that none of them depends on the others.
"""

from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from lib.encoder.configuration import EncoderConfig
from lib.encoder.masked_lm import EncoderForMaskedLM
from lib.encoder.model import EncoderModel
from lib.encoder.sequence_classification import EncoderForSequenceClassification

AutoModel.register(EncoderConfig, EncoderModel)
AutoModelForMaskedLM.register(EncoderConfig, EncoderForMaskedLM)
AutoModelForSequenceClassification.register(EncoderConfig, EncoderForSequenceClassification)

"""Makes transformers' Auto classes know these models; imported by the hook in `lib/__init__.py` alone.

Apart from the models, so that none of them depends on the others.
"""

from transformers import AutoModel, AutoModelForSeq2SeqLM

from lib.backbones.encoder_decoder.configuration import EncoderDecoderBackboneConfig
from lib.backbones.encoder_decoder.model import EncoderDecoderModel
from lib.backbones.encoder_decoder.text_to_text import EncoderDecoderForTextToText

AutoModel.register(EncoderDecoderBackboneConfig, EncoderDecoderModel)
AutoModelForSeq2SeqLM.register(EncoderDecoderBackboneConfig, EncoderDecoderForTextToText)

"""Weights of models, and those that train in the study of hate speech, counted on models without memory."""

import torch
from plain_vocabulary import PlainVocabulary

from lib.backbones.adapters import Adapters
from lib.backbones.settings import BACKBONES
from lib.study.configuration import SHIPPED, load_study, read_layers
from lib.tasks.settings import TASKS

# Of RoBERTa's tokeniser.
VOCABULARY = PlainVocabulary(
    50_265, pad_token_id=1, eos_token_id=2, bos_token_id=0, cls_token_id=0, sep_token_id=2, mask_token_id=50_264
)


def test_trained_weights_of_roberta():
    """By hand: 12 layers of 4 x 8 x (768 + 768) and 2 x 8 x (768 + 3072); a head of 768 x 769 and 2 x 769."""
    graph = load_study(read_layers([SHIPPED["hate_speech.yaml"]])).graph
    work = graph.work("roberta-lora", "classify", "comments")
    backbone = BACKBONES.load("pretrained", "backbone").Backbone(graph.experiment.backbones["roberta"], seed=0)
    task = TASKS.load(work.task.kind, "task").Task(work.task, labels=["no", "yes"], seed=0)
    with torch.device("meta"):
        model = task.model(backbone.config(VOCABULARY, task.model_options()))
        Adapters(model, work.recipe.lora, seed=0, start=None)
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert trained == 1_327_104 + 592_130 == 1_919_234

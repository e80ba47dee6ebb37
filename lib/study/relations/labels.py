"""Check that documents have the labels and texts that tasks need."""

from collections.abc import Iterator

from lib.study.graph import Graph
from lib.study.relations.works import all_works


def _labels_fit(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for place, entry, work in all_works(graph):
        task = work.task
        if not task.labelled:
            continue
        if entry in experiment.corpora:
            yield f"{place}: {task.kind} needs labels, but {entry} is a corpus without"
            continue
        dataset = experiment.datasets[entry]
        if dataset.label_per != task.label_per:
            yield (
                f"{place}: {task.kind} needs a label per {task.label_per}, but {entry} has one per "
                f"{dataset.label_per}. Set datasets.{entry}.label_per: {task.label_per} if its labels are such, or "
                "give the stage another task or dataset"
            )
        if task.numbers != (dataset.label_range is not None):
            needed, found = ("numbers", "classes") if task.numbers else ("classes", "numbers")
            yield (
                f"{place}: {task.kind} needs labels that are {needed}, but those of {entry} are {found}. "
                f"{'Give its label_range' if task.numbers else 'Name the task regression'}, or give the stage another "
                "task or dataset"
            )
        for error in () if dataset.label_range is not None else task.label_errors(dataset.labels):
            yield f"{place}.task.{error}"


def _pairs_fit(graph: Graph) -> Iterator[str]:
    experiment = graph.experiment
    for place, entry, work in all_works(graph):
        if entry in experiment.datasets and (texts := experiment.datasets[entry].texts) not in work.task.texts:
            taken = " or ".join(_TEXTS[each] for each in work.task.texts)
            yield (
                f"{place}: {work.task.kind} reads {taken}, but the documents of {entry} are {_TEXTS[texts]} "
                f"(datasets.{entry}.text_pair and pairs). Change these, or give the stage another task"
            )
    for model, stage, entry in graph.places:
        if entry not in experiment.datasets or experiment.datasets[entry].texts != "together":
            continue
        backbone = graph.backbone_at(model, stage, entry)
        if not backbone.takes_pairs:
            yield (
                f"models.{model}: its backbone of kind {backbone.kind} cannot read the pairs of {entry}. Let it skip "
                "the stage, or choose another backbone"
            )
        elif graph.reads_tokens(model, stage, entry):
            tokenizer = graph.tokenizer_of(model, entry)
            if not experiment.tokenizers[tokenizer].enclose:
                yield (
                    f"tokenizers.{tokenizer}.enclose: false puts nothing between the two texts of {entry}. Set it to "
                    f"true, or datasets.{entry}.pairs to separately"
                )


_TEXTS = {"single": "single texts", "together": "pairs read together", "separately": "pairs read separately"}
"""What documents are, in words."""


RELATIONS = (
    _labels_fit,
    _pairs_fit,
)

"""More training documents of chosen classes, and descriptions of all texts."""

from studies.hate_speech.augmentation import planning

AUGMENT = "studies/hate_speech/scripts/augment_dataset"
AUGMENTATIONS = {name: each.augmentation for name, each in plan.experiment.datasets.items() if each.augmentation}


def augmentation_sources(wildcards):
    """Return what the ways of an augmentation read, by way."""
    return planning.sources(plan.paths, AUGMENTATIONS[wildcards.corpus])


rule augment_dataset:
    input:
        **{split: plan.paths.documents("{corpus}", "prepared", split) for split in SPLITS},
        sources=lambda w: plan.inputs_of(place for places in augmentation_sources(w).values() for place in places),
    output:
        **{split: plan.paths.documents("{corpus}", "augmented", split) for split in SPLITS},
        summary=plan.paths.summary("{corpus}", "augmented"),
    log:
        plan.paths.log("augment_dataset/{corpus}"),
    wildcard_constraints:
        corpus=names(AUGMENTATIONS),
    threads: JOB.cpus_per_task
    resources:
        **gpus(lambda w: JOB.gpu if "masked_lm" in AUGMENTATIONS[w.corpus].ways else 0),
        mem_mb=scaled_by_attempt(16_000),
        runtime=scaled_by_attempt(480),
        cpus_per_task=JOB.cpus_per_task,
    params:
        settings=lambda w: planned(AUGMENTATIONS[w.corpus].model_dump(mode="json")),
        preparation=lambda w: planned(plan.experiment.datasets[w.corpus].preparation.model_dump(mode="json")),
        sources=lambda w: listed(part_options("--source", augmentation_sources(w))),
        folder=subpath(output.summary, parent=True),
        device=DEVICE,
        program=lambda w: coded(AUGMENT, planning.code, AUGMENTATIONS[w.corpus])(w),
    message:
        "augment {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} --preparation {params.preparation:q}"
        " --train {input.train} --validation {input.validation} --test {input.test} @{params.sources}"
        " --device {params.device} --out {params.folder} > {log} 2>&1"


rule describe_dataset:
    input:
        lambda w: [plan.corpora.documents(w.corpus, split) for split in SPLITS],
    output:
        plan.paths.texts("{corpus}"),
    log:
        plan.paths.log("describe_dataset/{corpus}"),
    wildcard_constraints:
        corpus=names(plan.experiment.datasets),
    resources:
        mem_mb=scaled_by_attempt(4_000),
        runtime=scaled_by_attempt(60),
    params:
        settings=lambda w: planned(plan.experiment.datasets[w.corpus].description.model_dump(mode="json")),
        program=program("studies/hate_speech/scripts/describe_dataset"),
    message:
        "describe the texts of {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} --data {input} --out {output} > {log} 2>&1"

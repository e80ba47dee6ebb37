"""From raw files to tokenised splits."""

SLICES = {"short", "long", "held_out"}
"""Settings of a corpus that say which of its articles are tokenised."""


def part_options(option, files):
    """Return `option NAME FILE ...` for every part."""
    return [word for part, paths in files.items() for word in (option, part, *paths)]


def documents(split, wildcards):
    """Return the documents of a split that are tokenised."""
    return plan.corpora.documents(wildcards.corpus, split)


SLICES = {"short", "long", "held_out"}


def longest(wildcards):
    """Return how many tokens of a document are kept, by the name of the tokens or else the dataset."""
    return int(wildcards.tokens_name.partition(LENGTH)[2] or plan.experiment.datasets[wildcards.corpus].max_tokens)


rule filter_corpus:
    input:
        lambda w: plan.corpora.raw_list(w.corpus)[int(w.shard)],
    output:
        plan.paths.filtered_shard("{corpus}", "{shard}"),
    log:
        plan.paths.log("filter_corpus/{corpus}/{shard}"),
    wildcard_constraints:
        corpus=names(plan.experiment.corpora),
    resources:
        mem_mb=scaled_by_attempt(4_000),
        runtime=scaled_by_attempt(60),
    params:
        settings=lambda w: planned(plan.experiment.corpora[w.corpus].filter.model_dump(mode="json")),
        program=program("filter_corpus"),
    message:
        "filter file {wildcards.shard} of {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} --part train-{wildcards.shard}"
        " --source {input:q} --out {output} > {log} 2>&1"


rule prepare_dataset:
    input:
        files=lambda w: plan.corpora.raw_list(w.corpus),
        ground_truth=lambda w: plan.corpora.raw_list(w.corpus, "ground_truth"),
        folds=lambda w: plan.corpora.fold_file(w.corpus),
    output:
        **{split: plan.paths.documents("{corpus}", "prepared", split) for split in SPLITS},
        summary=plan.paths.summary("{corpus}", "prepared"),
    log:
        plan.paths.log("prepare_dataset/{corpus}"),
    wildcard_constraints:
        corpus=names(plan.experiment.datasets),
    resources:
        mem_mb=scaled_by_attempt(4_000),
        runtime=scaled_by_attempt(120),
    params:
        settings=lambda w: planned(plan.experiment.datasets[w.corpus].preparation.model_dump(mode="json")),
        files=lambda w: listed(part_options("--part", plan.corpora.raw_files(w.corpus))),
        ground_truth=lambda w: listed(part_options("--ground-truth", plan.corpora.raw_files(w.corpus, "ground_truth"))),
        folder=subpath(output.summary, parent=True),
        program=program("prepare_dataset"),
    message:
        "prepare {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} @{params.files} @{params.ground_truth}"
        " --out {params.folder} > {log} 2>&1"


rule train_tokenizer:
    input:
        lambda w: plan.inputs_of(plan.corpora.tokenizer_sources(w.tokenizer)),
    output:
        directory(plan.paths.tokenizer("{tokenizer}")),
    log:
        plan.paths.log("train_tokenizer/{tokenizer}"),
    resources:
        mem_mb=scaled_by_attempt(16_000),
        runtime=scaled_by_attempt(120),
    params:
        settings=lambda w: planned(plan.experiment.tokenizers[w.tokenizer].model_dump(mode="json")),
        sources=lambda w: listed(plan.corpora.tokenizer_sources(w.tokenizer)),
        program=program("train_tokenizer"),
    message:
        "make the tokeniser {wildcards.tokenizer}"
    shell:
        "{params.program} --settings {params.settings:q} --sources @{params.sources} --out {output} > {log} 2>&1"


rule tokenize_corpus:
    input:
        shards=lambda w: plan.corpora.filtered_shards(w.corpus),
        tokenizer=plan.paths.tokenizer("{tokenizer}"),
    output:
        train=directory(plan.paths.tokens("{corpus}", "{tokenizer}", "train")),
        validation=directory(plan.paths.tokens("{corpus}", "{tokenizer}", "validation")),
        lengths=plan.paths.token_lengths("{corpus}", "{tokenizer}"),
    log:
        plan.paths.log("tokenize/{corpus}/{tokenizer}"),
    wildcard_constraints:
        corpus=names(plan.experiment.corpora),
    resources:
        mem_mb=scaled_by_attempt(4_000),
        runtime=scaled_by_attempt(240),
    params:
        slices=lambda w: planned(plan.experiment.corpora[w.corpus].model_dump(mode="json", include=SLICES)),
        shards=lambda w, input: listed(input.shards),
        folder=subpath(output.lengths, parent=True),
        program=program("tokenize_corpus"),
    message:
        "tokenise {wildcards.corpus} with {wildcards.tokenizer}"
    shell:
        "{params.program} --shards @{params.shards} --tokenizer {input.tokenizer} --slices {params.slices:q}"
        " --out {params.folder} --lengths {output.lengths} > {log} 2>&1"


rule tokenize_dataset:
    input:
        **{split: partial(documents, split) for split in SPLITS},
        tokenizer=lambda w: plan.paths.tokenizer(w.tokens_name.partition(LENGTH)[0]),
    output:
        **{split: directory(plan.paths.tokens("{corpus}", "{tokens_name}", split)) for split in SPLITS},
        lengths=plan.paths.token_lengths("{corpus}", "{tokens_name}"),
    log:
        plan.paths.log("tokenize/{corpus}/{tokens_name}"),
    wildcard_constraints:
        corpus=names(plan.experiment.datasets),
        tokens_name=rf"({names(plan.experiment.tokenizers)})({LENGTH}\d+)?",
    resources:
        mem_mb=scaled_by_attempt(4_000),
        runtime=scaled_by_attempt(240),
    params:
        max_tokens=longest,
        window_stride=lambda w: plan.experiment.datasets[w.corpus].window_stride,
        pairs=lambda w: plan.experiment.datasets[w.corpus].pairs,
        folder=subpath(output.lengths, parent=True),
        program=program("tokenize_dataset"),
    message:
        "tokenise {wildcards.corpus} with {wildcards.tokens_name}"
    shell:
        "{params.program} --train {input.train} --validation {input.validation} --test {input.test}"
        " --tokenizer {input.tokenizer} --max-tokens {params.max_tokens} --window-stride {params.window_stride}"
        " --pairs {params.pairs} --out {params.folder} --lengths {output.lengths} > {log} 2>&1"


rule encode_dataset:
    input:
        **{split: partial(documents, split) for split in SPLITS},
        encoder=lambda w: plan.inputs_of(plan.corpora.encoder_sources(w.encoder)),
    output:
        directory(plan.paths.vectors("{encoder}", "{corpus}")),
    log:
        plan.paths.log("encode/{encoder}/{corpus}"),
    wildcard_constraints:
        corpus=names(plan.experiment.datasets),
        encoder=names(plan.experiment.encoders),
    threads: (workflow.local_exec and workflow.resource_settings.cores) or JOB.cpus_per_task
    resources:
        **gpus(),
        mem_mb=JOB.mem_mb,
        runtime=scaled_by_attempt(240),
        cpus_per_task=JOB.cpus_per_task,
    params:
        settings=lambda w: planned(plan.experiment.encoders[w.encoder].model_dump(mode="json")),
        sources=lambda w: plan.corpora.encoder_sources(w.encoder),
        device=DEVICE,
        work=f"{plan.paths.work}/vectors/{{encoder}}/{{corpus}}",
        program=program("encode"),
    message:
        "vectors of {wildcards.corpus} by {wildcards.encoder}"
    shell:
        "{params.program} --train {input.train} --validation {input.validation} --test {input.test}"
        " --name {wildcards.encoder} --settings {params.settings:q} --weights {params.sources[0]:q}"
        " --tokenizer {params.sources[1]:q} --device {params.device} --work {params.work} --out {output}"
        " > {log} 2>&1"

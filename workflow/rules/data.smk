"""From raw files to tokenised splits."""


def part_options(option, files):
    """Return `option NAME FILE ...` for every part."""
    return [word for part, paths in files.items() for word in (option, part, *paths)]


def documents(split, wildcards):
    """Return the documents of a split that are tokenised."""
    return plan.corpora.documents(wildcards.corpus, split)


def longest(wildcards):
    """Return how many tokens of a document are kept, by the name of the tokens or else the dataset."""
    return int(wildcards.tokens_name.partition(LENGTH)[2] or plan.experiment.datasets[wildcards.corpus].max_tokens)


rule filter_corpus:
    input:
        lambda w: plan.corpora.shards(w.corpus)[int(w.shard)],
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
        files=lambda w: [path for paths in plan.corpora.raw_files(w.corpus).values() for path in paths],
        ground_truth=lambda w: [
            path for paths in plan.corpora.raw_files(w.corpus, "ground_truth").values() for path in paths
        ],
        folds=lambda w: plan.corpora.fold_file(w.corpus),
    output:
        **{split: plan.paths.prepared("{corpus}", split) for split in SPLITS},
        summary=plan.paths.prepared_summary("{corpus}"),
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


rule augment_dataset:
    input:
        **{split: plan.paths.prepared("{corpus}", split) for split in SPLITS},
        sources=lambda w: plan.inputs_of(
            place for places in plan.corpora.augmentation_sources(w.corpus).values() for place in places
        ),
    output:
        **{split: plan.paths.augmented("{corpus}", split) for split in SPLITS},
        summary=plan.paths.augmented_summary("{corpus}"),
    log:
        plan.paths.log("augment_dataset/{corpus}"),
    wildcard_constraints:
        corpus=names(plan.corpora.augmentations),
    threads: JOB.cpus_per_task
    resources:
        **gpus(lambda w: JOB.gpu if "masked_lm" in plan.corpora.augmentations[w.corpus].ways else 0),
        mem_mb=scaled_by_attempt(16_000),
        runtime=scaled_by_attempt(480),
        cpus_per_task=JOB.cpus_per_task,
    params:
        settings=lambda w: planned(plan.corpora.augmentations[w.corpus].model_dump(mode="json")),
        preparation=lambda w: planned(plan.experiment.datasets[w.corpus].preparation.model_dump(mode="json")),
        sources=lambda w: listed(part_options("--source", plan.corpora.augmentation_sources(w.corpus))),
        folder=subpath(output.summary, parent=True),
        device=DEVICE,
        program=lambda w: coded("augment_dataset", plan.corpora.augmentation_code(w.corpus)),
    message:
        "augment {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} --preparation {params.preparation:q}"
        " --train {input.train} --validation {input.validation} --test {input.test} @{params.sources}"
        " --device {params.device} --out {params.folder} > {log} 2>&1"


rule place_dataset:
    input:
        **{split: plan.paths.prepared("{corpus}", split) for split in SPLITS},
        articles=lambda w: plan.corpora.filtered_shards(plan.corpora.placements[w.corpus].corpus),
    output:
        **{split: plan.paths.placed("{corpus}", split) for split in SPLITS},
        summary=plan.paths.placed_summary("{corpus}"),
    log:
        plan.paths.log("place_dataset/{corpus}"),
    wildcard_constraints:
        corpus=names(plan.corpora.placements),
    resources:
        mem_mb=scaled_by_attempt(8_000),
        runtime=scaled_by_attempt(60),
    params:
        settings=lambda w: planned(plan.corpora.placements[w.corpus].model_dump(mode="json")),
        used=lambda w: plan.corpora.articles_used(plan.corpora.placements[w.corpus].corpus),
        articles=lambda w, input: listed(input.articles),
        folder=subpath(output.summary, parent=True),
        program=program("place_dataset"),
    message:
        "place the texts of {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} --train {input.train} --validation {input.validation}"
        " --test {input.test} --articles @{params.articles} --used {params.used} --out {params.folder} > {log} 2>&1"


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
        program=program("describe_dataset"),
    message:
        "describe the texts of {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} --data {input} --out {output} > {log} 2>&1"


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
        settings=lambda w: plan.corpora.tokenizer_options(w.tokenizer),
        sources=lambda w: listed(plan.corpora.tokenizer_sources(w.tokenizer)),
        program=program("train_tokenizer"),
    message:
        "make the tokeniser {wildcards.tokenizer}"
    shell:
        "{params.program} {params.settings} @{params.sources} --out {output} > {log} 2>&1"


rule train_word_vectors:
    input:
        lambda w: plan.corpora.word_vectors_sources(w.vectors),
    output:
        directory(plan.paths.word_vectors("{vectors}", "{draw}")),
    log:
        plan.paths.log("train_word_vectors/{vectors}/{draw}"),
    wildcard_constraints:
        draw=rf"seed-\d+|{UNSEEDED}",
    resources:
        mem_mb=scaled_by_attempt(16_000),
        runtime=scaled_by_attempt(480),
    params:
        settings=lambda w: planned(plan.experiment.word_vectors[w.vectors].model_dump(mode="json")),
        sources=lambda w, input: listed(input),
        seed=lambda w: [] if w.draw == UNSEEDED else ["--seed", w.draw.removeprefix("seed-")],
        program=program("train_word_vectors"),
    message:
        "make the word vectors {wildcards.vectors}, {wildcards.draw}"
    shell:
        "{params.program} --settings {params.settings:q} --source @{params.sources} {params.seed}"
        " --out {output} > {log} 2>&1"


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
        slices=lambda w: plan.corpora.slice_options(w.corpus),
        shards=lambda w, input: listed(input.shards),
        folder=subpath(output.lengths, parent=True),
        program=program("tokenize_corpus"),
    message:
        "tokenise {wildcards.corpus} with {wildcards.tokenizer}"
    shell:
        "{params.program} --shards @{params.shards} --tokenizer {input.tokenizer} {params.slices}"
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

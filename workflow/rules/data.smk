"""From raw files to tokenised splits."""


def part_options(option, files):
    """Return `option NAME FILE ...` for every part."""
    return [word for part, paths in files.items() for word in (option, part, *paths)]


rule filter_wikipedia:
    input:
        lambda w: plan.shards[int(w.shard)],
    output:
        plan.filtered_shard("{shard}"),
    log:
        plan.log("filter_wikipedia/{shard}"),
    benchmark:
        plan.benchmark("filter_wikipedia/{shard}")
    resources:
        mem_mb=4_000,
        runtime=60,
    params:
        settings=as_json(plan.experiment.wikipedia.filter.model_dump(mode="json")),
        code=code_digest("scripts/filter_wikipedia.py"),
    message:
        "filter shard {wildcards.shard}"
    shell:
        "python scripts/filter_wikipedia.py --settings {params.settings:q} --part train-{wildcards.shard}"
        " --source {input:q} --out {output} > {log} 2>&1"


rule prepare_dataset:
    input:
        files=lambda w: [path for paths in plan.raw_files(w.dataset).values() for path in paths],
        ground_truth=lambda w: [path for paths in plan.raw_files(w.dataset, "ground_truth").values() for path in paths],
    output:
        **{split: plan.prepared("{dataset}", split) for split in SPLITS},
        summary=plan.prepared_summary("{dataset}"),
    log:
        plan.log("prepare_dataset/{dataset}"),
    benchmark:
        plan.benchmark("prepare_dataset/{dataset}")
    resources:
        mem_mb=4_000,
        runtime=120,
    params:
        settings=lambda w: as_json(plan.experiment.datasets[w.dataset].preparation.model_dump(mode="json")),
        files=lambda w: part_options("--part", plan.raw_files(w.dataset)),
        ground_truth=lambda w: part_options("--ground-truth", plan.raw_files(w.dataset, "ground_truth")),
        code=code_digest("scripts/prepare_dataset.py"),
    message:
        "prepare {wildcards.dataset}"
    shell:
        "python scripts/prepare_dataset.py --settings {params.settings:q} {params.files:q} {params.ground_truth:q}"
        " --out $(dirname {output.summary}) > {log} 2>&1"


rule tokenizer:
    input:
        plan.vocabulary or [plan.filtered_shard(index) for index in range(len(plan.shards))],
    output:
        directory(plan.tokenizer),
    log:
        plan.log("tokenizer"),
    resources:
        mem_mb=16_000,
        runtime=120,
    params:
        settings=plan.tokenizer_options,
        code=code_digest("scripts/train_tokenizer.py"),
    message:
        "make the tokeniser"
    shell:
        "python scripts/train_tokenizer.py {params.settings} {input:q} --out {output} > {log} 2>&1"


rule tokenize_pretraining:
    input:
        shards=[plan.filtered_shard(index) for index in range(len(plan.shards))],
        tokenizer=plan.tokenizer,
    output:
        train=directory(plan.tokens(WIKIPEDIA, "train")),
        validation=directory(plan.tokens(WIKIPEDIA, "validation")),
        lengths=plan.token_lengths(WIKIPEDIA),
    log:
        plan.log(f"tokenize/{WIKIPEDIA}"),
    benchmark:
        plan.benchmark(f"tokenize/{WIKIPEDIA}")
    resources:
        mem_mb=4_000,
        runtime=240,
    params:
        slices=plan.slice_options,
        code=code_digest("scripts/tokenize_pretraining.py"),
    message:
        "tokenise the pretraining corpus"
    shell:
        "python scripts/tokenize_pretraining.py --shards {input.shards} --tokenizer {input.tokenizer} {params.slices}"
        " --out $(dirname {output.train}) --lengths {output.lengths} > {log} 2>&1"


rule tokenize_dataset:
    input:
        **{split: plan.prepared("{dataset}", split) for split in SPLITS},
        tokenizer=plan.tokenizer,
    output:
        **{split: directory(plan.tokens("{dataset}", split)) for split in SPLITS},
        lengths=plan.token_lengths("{dataset}"),
    log:
        plan.log("tokenize/{dataset}"),
    benchmark:
        plan.benchmark("tokenize/{dataset}")
    resources:
        mem_mb=4_000,
        runtime=240,
    params:
        max_tokens=lambda w: plan.experiment.datasets[w.dataset].max_tokens,
        code=code_digest("scripts/tokenize_dataset.py"),
    message:
        "tokenise {wildcards.dataset}"
    shell:
        "python scripts/tokenize_dataset.py --train {input.train} --validation {input.validation} --test {input.test}"
        " --tokenizer {input.tokenizer} --max-tokens {params.max_tokens}"
        " --out $(dirname {output.train}) --lengths {output.lengths} > {log} 2>&1"

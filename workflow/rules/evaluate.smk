"""Every run without a training loop: baselines, and models that are taken as they are."""

EVALUATED = [run for run in plan.made if not plan.trains(run)]


rule evaluate:
    input:
        data=lambda w: list(plan.data(key(w)).values()),
        tokenizer=lambda w: plan.tokenizer(key(w)),
        start=lambda w: plan.start(key(w)),
    output:
        **plan.record(RUN, "predictions"),
    log:
        plan.log("{stage}/{model}/{dataset}/seed-{seed}"),
    benchmark:
        plan.benchmark("{stage}/{model}/{dataset}/seed-{seed}")
    wildcard_constraints:
        **only([run for run in EVALUATED if not plan.reads_tokens(run)]),
    resources:
        mem_mb=lambda w, input, attempt: attempt * round(2_000 + TEXT_MEMORY * input.size_mb),
        runtime=growing(60),
    params:
        settings=lambda w: plan.run_settings(key(w)),
        splits=lambda w: list(plan.data(key(w))),
        tokenizer=lambda w, input: optional("--tokenizer", input.tokenizer),
        start=lambda w, input: optional("--start", input.start),
        folder=plan.folder(RUN),
        code=lambda w: plan.run_code(key(w)),
    message:
        "{wildcards.stage} {wildcards.model} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{PYTHON:q} scripts/evaluate.py --config {params.settings:q} --splits {params.splits} --data {input.data}"
        " {params.tokenizer} {params.start} --execution {EXECUTION:q}"
        " --code {params.code} --out {params.folder} > {log} 2>&1"


# The same rule for models that read tokens, which need what a training needs.
use rule evaluate as evaluate_model with:
    wildcard_constraints:
        **only([run for run in EVALUATED if plan.reads_tokens(run)]),
    threads: JOB.cpus_per_task
    resources:
        **gpus(),
        runtime=training_runtime,
        mem_mb=growing(JOB.mem_mb),
        cpus_per_task=JOB.cpus_per_task,

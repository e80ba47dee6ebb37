"""Searches: which of the settings that a stage tries are the best."""


rule best:
    input:
        lambda w: plan.result_inputs({"scope": plan.search_scope(w.stage, w.dataset)}),
    output:
        plan.best("{stage}", "{dataset}"),
    log:
        plan.log("search/{stage}/{dataset}"),
    wildcard_constraints:
        stage=names(stage for stage, _ in plan.searches_by("variants")),
        dataset=names(dataset for _, dataset in plan.searches_by("variants")),
    localrule: True
    params:
        scope=lambda w: as_json(plan.search_scope(w.stage, w.dataset)),
        code=code_digest("scripts/best.py"),
    message:
        "best settings of {wildcards.stage} on {wildcards.dataset}"
    shell:
        "{PYTHON:q} scripts/best.py --scope {params.scope:q} --records {input} --out {output} > {log} 2>&1"


rule tune:
    input:
        data=lambda w: list(plan.data(key(w)).values()),
        tokenizer=lambda w: plan.tokenizer(key(w)),
        start=lambda w: plan.start(key(w)),
    output:
        **plan.record(RUN, "trials", "best"),
    log:
        plan.log("{stage}/{model}/{dataset}/seed-{seed}"),
    benchmark:
        plan.benchmark("{stage}/{model}/{dataset}/seed-{seed}")
    wildcard_constraints:
        **only([run for run in plan.made if plan.tunes(run)]),
    threads: JOB.cpus_per_task
    resources:
        **gpus(),
        runtime=training_runtime,
        mem_mb=growing(JOB.mem_mb),
        cpus_per_task=JOB.cpus_per_task,
    params:
        settings=lambda w: plan.run_settings(key(w)),
        splits=lambda w: list(plan.data(key(w))),
        start=lambda w, input: optional("--start", input.start),
        folder=plan.folder(RUN),
        code=lambda w: plan.run_code(key(w)),
    message:
        "{wildcards.stage} {wildcards.model} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{PYTHON:q} scripts/tune.py --config {params.settings:q} --splits {params.splits} --data {input.data}"
        " --tokenizer {input.tokenizer} {params.start} --execution {EXECUTION:q} --work {plan.results}/work"
        " --code {params.code} --out {params.folder} > {log} 2>&1"


rule best_trial:
    input:
        lambda w: plan.record(plan.tuned(w.stage, w.dataset), "best")["best"],
    output:
        plan.best("{stage}", "{dataset}"),
    wildcard_constraints:
        stage=names(stage for stage, _ in plan.searches_by("tuning")),
        dataset=names(dataset for _, dataset in plan.searches_by("tuning")),
    localrule: True
    message:
        "best settings of {wildcards.stage} on {wildcards.dataset}"
    shell:
        "cp {input} {output}"

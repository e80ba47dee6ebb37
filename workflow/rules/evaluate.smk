"""Every run without a training loop: baselines, and models that are taken as they are."""


rule evaluate:
    input:
        data=lambda w: list(plan.data(key(w)).values()),
    output:
        **plan.record(RUN, "predictions"),
    log:
        plan.log("{stage}/{model}/{dataset}/seed-{seed}"),
    benchmark:
        plan.benchmark("{stage}/{model}/{dataset}/seed-{seed}")
    wildcard_constraints:
        **stages_of([run for run in plan.runs if not plan.trains(run)]),
    resources:
        mem_mb=32_000,
        runtime=120,
    params:
        settings=lambda w: plan.run_settings(key(w)),
        splits=lambda w: list(plan.data(key(w))),
        folder=plan.folder(RUN),
        code=lambda w: plan.run_code(key(w)),
    message:
        "{wildcards.stage} {wildcards.model} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/evaluate.py --config {params.settings:q} --splits {params.splits} --data {input.data}"
        " --out {params.folder} > {log} 2>&1"

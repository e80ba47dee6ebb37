"""Searches: which of the settings that a stage tries are the best."""


rule best:
    input:
        lambda w: plan.report.inputs(plan.report.search_scope(w.stage, w.dataset)),
    output:
        plan.paths.best("{stage}", "{dataset}"),
    log:
        plan.paths.log("search/{stage}/{dataset}"),
    wildcard_constraints:
        stage=names(stage for stage, _ in plan.searches("variants")),
        dataset=names(dataset for _, dataset in plan.searches("variants")),
    localrule: True
    params:
        command=PROGRAM,
        scope=lambda w: as_json(plan.report.search_scope(w.stage, w.dataset)),
        code=code_digest("scripts/best.py"),
    message:
        "best settings of {wildcards.stage} on {wildcards.dataset}"
    shell:
        "{params.command:best} --scope {params.scope:q} --records {input} --out {output} > {log} 2>&1"


rule best_trial:
    input:
        lambda w: plan.paths.record(plan.tuned(w.stage, w.dataset)),
    output:
        plan.paths.best("{stage}", "{dataset}"),
    log:
        plan.paths.log("search/{stage}/{dataset}"),
    wildcard_constraints:
        stage=names(stage for stage, _ in plan.searches("tuning")),
        dataset=names(dataset for _, dataset in plan.searches("tuning")),
    localrule: True
    params:
        found=lambda w: plan.paths.best_trial(plan.tuned(w.stage, w.dataset)),
    message:
        "best settings of {wildcards.stage} on {wildcards.dataset}"
    shell:
        "cp {params.found:q} {output} > {log} 2>&1"

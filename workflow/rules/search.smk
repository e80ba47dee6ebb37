"""Searches: choose the best settings of a stage."""

from lib.core.record import BEST


rule best:
    input:
        lambda w: plan.report.inputs(plan.report.search_scope(w.stage, w.model, w.dataset)),
    output:
        plan.paths.best("{stage}", "{model}", "{dataset}"),
    log:
        plan.paths.log("search/{stage}/{model}/{dataset}"),
    wildcard_constraints:
        stage=names(stage for stage, _, _ in plan.searches("variants")),
        model=names(model for _, model, _ in plan.searches("variants")),
        dataset=names(dataset for _, _, dataset in plan.searches("variants")),
    localrule: True
    params:
        scope=lambda w: planned(plan.report.search_scope(w.stage, w.model, w.dataset)),
        records=lambda w, input: listed(input),
        program=program("best"),
    message:
        "best settings of {wildcards.stage} for {wildcards.model} on {wildcards.dataset}"
    shell:
        "{params.program} --scope {params.scope:q} --records @{params.records} --out {output} > {log} 2>&1"


rule best_trial:
    input:
        lambda w: plan.paths.record(plan.tuned(w.stage, w.model, w.dataset)),
    output:
        plan.paths.best("{stage}", "{model}", "{dataset}"),
    log:
        plan.paths.log("search/{stage}/{model}/{dataset}"),
    wildcard_constraints:
        stage=names(stage for stage, _, _ in plan.searches("tuning")),
        model=names(model for _, model, _ in plan.searches("tuning")),
        dataset=names(dataset for _, _, dataset in plan.searches("tuning")),
    localrule: True
    params:
        found=lambda w: f"{plan.paths.folder(plan.tuned(w.stage, w.model, w.dataset))}/{BEST}",
    message:
        "best settings of {wildcards.stage} for {wildcards.model} on {wildcards.dataset}"
    shell:
        "cp {params.found:q} {output} > {log} 2>&1"

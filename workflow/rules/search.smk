"""Searches: which of the settings that a stage tries are the best."""


rule best:
    input:
        lambda w: plan.result_inputs({"scope": plan.search_scope(w.stage, w.dataset)}),
    output:
        plan.best("{stage}", "{dataset}"),
    log:
        plan.log("search/{stage}/{dataset}"),
    wildcard_constraints:
        stage=names(stage for stage, _ in plan.searches),
        dataset=names(dataset for _, dataset in plan.searches),
    localrule: True
    params:
        scope=lambda w: as_json(plan.search_scope(w.stage, w.dataset)),
        code=code_digest("scripts/best.py"),
    message:
        "best settings of {wildcards.stage} on {wildcards.dataset}"
    shell:
        "python scripts/best.py --scope {params.scope:q} --records {input} --out {output} > {log} 2>&1"

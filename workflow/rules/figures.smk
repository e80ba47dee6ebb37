"""Figures, from run records alone."""


rule figure_f1_time:
    input:
        runs=plan.records("tapt", "finetune"),
        baselines=[f"{plan.baseline(dataset)}/report.json" for dataset in plan.datasets],
    output:
        svg=report(plan.figure("f1_time"), caption="../report/f1_time.rst", category="Figures"),
        png=plan.figure("f1_time", "png"),
    log:
        plan.log("figures/f1_time"),
    localrule: True
    params:
        models=plan.models,
        datasets=plan.datasets,
        code=code_digest("scripts/figure.py"),
    message:
        "figure of macro-F1 against training time"
    shell:
        "python scripts/figure.py f1_time --runs $(dirname {input.runs}) --baselines $(dirname {input.baselines})"
        " --models {params.models} --datasets {params.datasets} --out {output.svg} {output.png} > {log} 2>&1"

"""How near FAVOR+ and LSH come to exact attention: measured on made inputs, without a model."""


rule favor_error:
    output:
        table=plan.table("favor_error"),
    log:
        plan.log("tables/favor_error"),
    benchmark:
        plan.benchmark("favor_error")
    resources:
        mem_mb=4_000,
        runtime=20,
    params:
        code=code_digest("scripts/favor_error.py", "lib.attention.favor.mechanism", "lib.attention.favor.parameters"),
    message:
        "error of FAVOR+ against exact attention"
    shell:
        "python scripts/favor_error.py --out {output.table} > {log} 2>&1"


rule lsh_recall:
    output:
        table=plan.table("lsh_recall"),
    log:
        plan.log("tables/lsh_recall"),
    benchmark:
        plan.benchmark("lsh_recall")
    resources:
        mem_mb=4_000,
        runtime=20,
    params:
        code=code_digest("scripts/lsh_recall.py", "lib.attention.lsh.mechanism", "lib.attention.lsh.parameters"),
    message:
        "share of exact attention within the windows of LSH"
    shell:
        "python scripts/lsh_recall.py --out {output.table} > {log} 2>&1"


rule figure_favor_error:
    input:
        table=rules.favor_error.output.table,
    output:
        svg=report(plan.figure("favor_error"), caption="../report/favor_error.rst", category="Figures"),
        png=plan.figure("favor_error", "png"),
    log:
        plan.log("figures/favor_error"),
    localrule: True
    params:
        code=code_digest("scripts/approximation_figure.py"),
    message:
        "figure of the error of FAVOR+"
    shell:
        "python scripts/approximation_figure.py favor_error --table {input.table} --out {output.svg} {output.png}"
        " > {log} 2>&1"


rule figure_lsh_recall:
    input:
        table=rules.lsh_recall.output.table,
    output:
        svg=report(plan.figure("lsh_recall"), caption="../report/lsh_recall.rst", category="Figures"),
        png=plan.figure("lsh_recall", "png"),
    log:
        plan.log("figures/lsh_recall"),
    localrule: True
    params:
        code=code_digest("scripts/approximation_figure.py"),
    message:
        "figure of the recall of LSH"
    shell:
        "python scripts/approximation_figure.py lsh_recall --table {input.table} --out {output.svg} {output.png}"
        " > {log} 2>&1"

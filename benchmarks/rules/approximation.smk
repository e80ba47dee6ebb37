"""Accuracy of FAVOR+ and LSH relative to exact attention, on generated inputs, without a model."""


rule favor_error:
    output:
        table=plan.paths.table("favor_error"),
    log:
        plan.paths.log("tables/favor_error"),
    resources:
        mem_mb=scaled_by_attempt(4_000),
        runtime=scaled_by_attempt(20),
    params:
        program=program("benchmarks/favor_error", "lib.attention.favor.mechanism", "lib.attention.favor.settings"),
    message:
        "error of FAVOR+ against exact attention"
    shell:
        "{params.program} --out {output.table} > {log} 2>&1"


rule lsh_recall:
    output:
        table=plan.paths.table("lsh_recall"),
    log:
        plan.paths.log("tables/lsh_recall"),
    resources:
        mem_mb=scaled_by_attempt(4_000),
        runtime=scaled_by_attempt(20),
    params:
        program=program("benchmarks/lsh_recall", "lib.attention.lsh.mechanism", "lib.attention.lsh.settings"),
    message:
        "share of exact attention within the windows of LSH"
    shell:
        "{params.program} --out {output.table} > {log} 2>&1"

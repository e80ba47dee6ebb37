"""How near FAVOR+ and LSH come to exact attention: measured on made inputs, without a model."""


rule favor_error:
    output:
        table=plan.paths.table("favor_error"),
    log:
        plan.paths.log("tables/favor_error"),
    resources:
        mem_mb=growing(4_000),
        runtime=growing(20),
    params:
        command=PROGRAM,
        code=code_digest("scripts/favor_error.py", "lib.attention.favor.mechanism", "lib.attention.favor.parameters"),
    message:
        "error of FAVOR+ against exact attention"
    shell:
        "{params.command:favor_error} --out {output.table} > {log} 2>&1"


rule lsh_recall:
    output:
        table=plan.paths.table("lsh_recall"),
    log:
        plan.paths.log("tables/lsh_recall"),
    resources:
        mem_mb=growing(4_000),
        runtime=growing(20),
    params:
        command=PROGRAM,
        code=code_digest("scripts/lsh_recall.py", "lib.attention.lsh.mechanism", "lib.attention.lsh.parameters"),
    message:
        "share of exact attention within the windows of LSH"
    shell:
        "{params.command:lsh_recall} --out {output.table} > {log} 2>&1"

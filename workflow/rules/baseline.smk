"""The yardstick: TF-IDF with logistic regression, once a dataset."""


rule baseline:
    input:
        train=plan.prepared("{dataset}", "train"),
        validation=plan.prepared("{dataset}", "validation"),
        test=plan.prepared("{dataset}", "test"),
    output:
        report=f"{plan.baseline('{dataset}')}/report.json",
        predictions=f"{plan.baseline('{dataset}')}/predictions.parquet",
    log:
        plan.log("baseline/{dataset}"),
    benchmark:
        plan.benchmark("baseline/{dataset}")
    resources:
        mem_mb=32_000,
        runtime=120,
    params:
        labels=lambda w: plan.experiment.datasets[w.dataset].labels,
        settings=[
            f"--{name.replace('_', '-')} {value}" for name, value in plan.experiment.baseline.model_dump().items()
        ],
        code=code_digest("scripts/baseline.py"),
    message:
        "baseline on {wildcards.dataset}"
    shell:
        "python scripts/baseline.py --dataset {wildcards.dataset} --labels {params.labels:q} {params.settings}"
        " --train {input.train} --validation {input.validation} --test {input.test}"
        " --out $(dirname {output.report}) > {log} 2>&1"

"""Stage 2: masked language modelling on the training texts of a dataset, from the pretrained weights."""


rule tapt:
    input:
        train=plan.tokens("{dataset}", "train"),
        validation=plan.tokens("{dataset}", "validation"),
        tokenizer=plan.tokenizer,
        start=lambda w: plan.model_folder(*plan.parent("tapt", w.model, w.dataset, w.seed)),
    output:
        **plan.record("tapt", "{model}", "{dataset}", "{seed}"),
        model=directory(plan.model_folder("tapt", "{model}", "{dataset}", "{seed}")),
    log:
        plan.log("tapt/{model}/{dataset}/seed-{seed}"),
    benchmark:
        plan.benchmark("tapt/{model}/{dataset}/seed-{seed}")
    threads: JOB.cpus_per_task
    resources:
        **training_resources("tapt"),
    params:
        settings=lambda w: plan.run_settings("tapt", w.model, w.dataset, w.seed),
        code=lambda w: plan.run_code("tapt", w.model),
    message:
        "tapt {wildcards.model} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/tapt.py --config {params.settings:q} --execution {EXECUTION:q}"
        f" --work {plan.results}/work"
        " --out $(dirname {output.run}) > {log} 2>&1"

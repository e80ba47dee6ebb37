"""Stage 3: classification of a dataset, from the adapted weights."""


rule finetune:
    input:
        train=plan.tokens("{dataset}", "train"),
        validation=plan.tokens("{dataset}", "validation"),
        test=plan.tokens("{dataset}", "test"),
        tokenizer=plan.tokenizer,
        start=lambda w: plan.model_folder(*plan.parent("finetune", w.model, w.dataset, w.seed)),
    output:
        **plan.record("finetune", "{model}", "{dataset}", "{seed}"),
        model=directory(plan.model_folder("finetune", "{model}", "{dataset}", "{seed}")),
    log:
        plan.log("finetune/{model}/{dataset}/seed-{seed}"),
    benchmark:
        plan.benchmark("finetune/{model}/{dataset}/seed-{seed}")
    threads: JOB.cpus_per_task
    resources:
        **training_resources("finetune"),
    params:
        settings=lambda w: plan.run_settings("finetune", w.model, w.dataset, w.seed),
        code=lambda w: plan.run_code("finetune", w.model),
    message:
        "finetune {wildcards.model} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "python scripts/finetune.py --config {params.settings:q} --execution {EXECUTION:q}"
        f" --work {plan.results}/work"
        " --out $(dirname {output.run}) > {log} 2>&1"

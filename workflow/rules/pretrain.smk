"""Stage 1: masked language modelling on the pretraining corpus, once a mechanism and seed."""


rule pretrain:
    input:
        train=plan.tokens(WIKIPEDIA, "train"),
        validation=plan.tokens(WIKIPEDIA, "validation"),
        tokenizer=plan.tokenizer,
    output:
        **plan.record("pretrain", "{model}", WIKIPEDIA, "{seed}"),
        model=directory(plan.model_folder("pretrain", "{model}", WIKIPEDIA, "{seed}")),
    log:
        plan.log(f"pretrain/{{model}}/{WIKIPEDIA}/seed-{{seed}}"),
    benchmark:
        plan.benchmark(f"pretrain/{{model}}/{WIKIPEDIA}/seed-{{seed}}")
    threads: JOB.cpus_per_task
    resources:
        **training_resources("pretrain"),
    params:
        settings=lambda wildcards: plan.run_settings("pretrain", wildcards.model, WIKIPEDIA, wildcards.seed),
        code=lambda wildcards: plan.run_code("pretrain", wildcards.model),
    message:
        "pretrain {wildcards.model}, seed {wildcards.seed}"
    shell:
        "python scripts/pretrain.py --config {params.settings:q} --execution {EXECUTION:q}"
        f" --work {plan.results}/work"
        " --out $(dirname {output.run}) > {log} 2>&1"

"""Scores of the training documents by trained models (teachers), made once for each student."""


def teacher(wildcards):
    """Return the run whose model teaches the run that the wildcards name."""
    return plan.run(run(wildcards).teacher)


rule teach:
    input:
        config=lambda w: plan.paths.config(teacher(w).id),
        record=lambda w: plan.paths.record(teacher(w).id),
        tokenizer=lambda w: plan.tokenizer(teacher(w)),
        documents=lambda w: plan.tokens(teacher(w))["train"],
        tokens=lambda w: plan.tokens(run(w))["train"],
    output:
        directory(plan.paths.taught(RUN)),
    log:
        plan.paths.log("teach/{place}/seed-{seed}"),
    threads: JOB.cpus_per_task
    resources:
        **gpus(),
        runtime=lambda w, attempt: attempt * plan.minutes(teacher(w)),
        mem_mb=scaled_by_attempt(JOB.mem_mb),
        cpus_per_task=JOB.cpus_per_task,
    params:
        model=lambda w: plan.paths.model(teacher(w).id),
        execution=EXECUTION,
        program=program("studies/hate_speech/scripts/teach"),
    message:
        "scores of the teacher for {wildcards.place}, seed {wildcards.seed}"
    shell:
        "{params.program} --config {input.config} --model {params.model:q} --tokenizer {input.tokenizer}"
        " --documents {input.documents} --tokens {input.tokens} --execution {params.execution:q} --out {output} > {log} 2>&1"

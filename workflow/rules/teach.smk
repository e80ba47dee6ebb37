"""What trained models teach others: their scores of the training documents, made once for each student."""

STUDENTS = [run for run in TRAINED if plan.teacher(run)]


def teacher(wildcards):
    """Return the run whose model teaches the run that the wildcards name."""
    return plan.teacher(key(wildcards))


rule teach:
    input:
        config=lambda w: plan.record(teacher(w))["config"],
        model=lambda w: plan.model_folder(teacher(w)),
        tokenizer=lambda w: plan.tokenizer(teacher(w)),
        documents=lambda w: plan.tokens_of(teacher(w), "train"),
        tokens=lambda w: plan.tokens_of(key(w), "train"),
    output:
        directory(plan.taught(RUN)),
    log:
        plan.log("teach/{stage}/{model}/{dataset}/seed-{seed}"),
    wildcard_constraints:
        **only(STUDENTS),
    threads: JOB.cpus_per_task
    resources:
        **gpus(),
        runtime=lambda w, attempt: attempt * plan.minutes(teacher(w)),
        mem_mb=growing(JOB.mem_mb),
        cpus_per_task=JOB.cpus_per_task,
    params:
        code=code_digest("scripts/teach.py"),
    message:
        "{wildcards.stage}: what teaches {wildcards.model} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{PYTHON:q} scripts/teach.py --config {input.config} --model {input.model} --tokenizer {input.tokenizer}"
        " --documents {input.documents} --tokens {input.tokens} --execution {EXECUTION:q} --out {output} > {log} 2>&1"

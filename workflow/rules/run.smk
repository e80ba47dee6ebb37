"""One rule for all runs of all stages, which differ only in settings, inputs and program."""

PROCESSES = plan.study.execution.gpus_per_run
GPUS = "gres {resources.gres}" if JOB.gres and JOB.gpu else "{resources.gpu} GPUs"
RESOURCES = f"{{resources.runtime}} min, {{resources.mem_mb}} MB, {GPUS}"
"""What a run asks for, in the words of its message."""


def run(wildcards):
    """Return the run that the wildcards name."""
    return plan.run_at(f"{wildcards.place}/seed-{wildcards.seed}")


def processes(wildcards):
    """Return how many processes share a run."""
    return PROCESSES if plan.program(run(wildcards)) == "train" else 1


def on_tokens(amount):
    """Return a resource of a run on tokens, `amount` per process; 0 for other runs."""
    return lambda wildcards: processes(wildcards) * amount if run(wildcards).reads_tokens else 0


def minutes(wildcards, attempt):
    """Return the minutes that a run asks for; a retry asks for more."""
    return attempt * (plan.minutes(run(wildcards)) if run(wildcards).reads_tokens else 60)


def memory(wildcards, input, attempt):
    """Return the memory that a run asks for, set for jobs or estimated from its texts; a retry asks for more."""
    asked = on_tokens(JOB.mem_mb)(wildcards)
    return attempt * (asked or round(2_000 + TEXT_MEMORY * input.size_mb))


if plan.study.execution.runs == "made":

    # The outputs for Snakemake are the run's settings and its record. The record lists the other files.
    rule run:
        input:
            data=lambda w: list(plan.data(run(w)).values()),
            tokenizer=lambda w: plan.tokenizer(run(w)),
            start=lambda w: plan.inputs_of(plan.start(run(w))),
            teacher=lambda w: plan.inputs_of(plan.imitated_weights(run(w))),
            best=lambda w: plan.settings_from(run(w)),
            vectors=lambda w: plan.word_vectors(run(w)) + plan.vectors(run(w)),
        output:
            config=plan.paths.config(RUN),
            record=plan.paths.record(RUN),
        log:
            plan.paths.log("{place}/seed-{seed}"),
        threads: lambda w: max(1, on_tokens(JOB.cpus_per_task)(w))
        resources:
            **gpus(on_tokens(JOB.gpu)),
            runtime=minutes,
            mem_mb=memory,
            cpus_per_task=lambda w: max(1, on_tokens(JOB.cpus_per_task)(w)),
        params:
            program=lambda w: coded(plan.program(run(w)), plan.code, run(w))(w),
            settings=lambda w: handed(run(w).settings),
            splits=lambda w: list(plan.data(run(w))),
            tokenizer=lambda w, input: optional("--tokenizer", input.tokenizer),
            # In one parameter, so that the command of runs without a teacher or vectors does not change.
            start=lambda w: [
                *optional("--start", plan.start(run(w))),
                *optional("--teacher", plan.imitated_weights(run(w))),
                *optional("--word-vectors", plan.word_vectors(run(w))),
                *optional("--vectors", plan.vectors(run(w))),
            ],
            best=lambda w, input: optional("--settings-from", input.best),
            folder=plan.paths.folder(RUN),
            execution=EXECUTION,
            work=WORK,
        message:
            f"{{wildcards.place}}, seed {{wildcards.seed}} ({RESOURCES})"
        shell:
            "{params.program} --config {params.settings:q} --splits {params.splits} --data {input.data}"
            " {params.tokenizer} {params.start} {params.best} --execution {params.execution:q} --work {params.work}"
            " --code {params.program.digest} --out {params.folder} > {log} 2>&1"

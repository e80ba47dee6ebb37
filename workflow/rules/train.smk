"""Every run that trains, of whichever stage: one rule, since stages differ in settings alone."""

PROCESSES = plan.study.execution.gpus_per_run
# In the place of `python`; its value makes no run stale, unlike the text of a command.
TRAINER = [PYTHON]
if PROCESSES > 1:
    TRAINER += ["-m", "torch.distributed.run", "--standalone", "--local-addr", "localhost"]
    # The last word keeps torchrun from taking options of the program for abbreviations of its own.
    TRAINER += ["--nproc-per-node", str(PROCESSES), "--"]
TRAINER = shlex.join(TRAINER)

TRAINED = [run for run in plan.made if plan.trains(run) and not plan.tunes(run)]


def training_runtime(wildcards, attempt):
    """Return the minutes that a run on tokens asks for; a retry asks for more."""
    return attempt * plan.minutes(key(wildcards))


rule train:
    input:
        data=lambda w: list(plan.data(key(w)).values()),
        tokenizer=lambda w: plan.tokenizer(key(w)),
        start=lambda w: plan.start(key(w)),
        best=lambda w: plan.settings_from(key(w)),
    output:
        **plan.record(RUN, "history"),
        model=directory(plan.model_folder(RUN)),
    log:
        plan.log("{stage}/{model}/{dataset}/seed-{seed}"),
    benchmark:
        plan.benchmark("{stage}/{model}/{dataset}/seed-{seed}")
    wildcard_constraints:
        **only([run for run in TRAINED if not plan.predicts(run) and not plan.measures(run)]),
    threads: PROCESSES * JOB.cpus_per_task
    resources:
        **gpus(PROCESSES * JOB.gpu),
        runtime=training_runtime,
        mem_mb=growing(PROCESSES * JOB.mem_mb),
        cpus_per_task=PROCESSES * JOB.cpus_per_task,
    params:
        settings=lambda w: plan.run_settings(key(w)),
        splits=lambda w: list(plan.data(key(w))),
        # Both in one, since another command would make every run stale.
        start=lambda w, input: optional("--start", input.start) + optional("--settings-from", input.best),
        folder=plan.folder(RUN),
        code=lambda w: plan.run_code(key(w)),
    message:
        "{wildcards.stage} {wildcards.model} on {wildcards.dataset}, seed {wildcards.seed}"
    shell:
        "{TRAINER} scripts/train.py --config {params.settings:q} --splits {params.splits} --data {input.data}"
        " --tokenizer {input.tokenizer} {params.start} --execution {EXECUTION:q} --work {plan.results}/work"
        " --code {params.code} --out {params.folder} > {log} 2>&1"


# The same rule for tasks that predict, whose runs leave one file more.
use rule train as train_and_predict with:
    output:
        **plan.record(RUN, "history", "predictions"),
        model=directory(plan.model_folder(RUN)),
    wildcard_constraints:
        **only([run for run in TRAINED if plan.predicts(run) and not plan.measures(run)]),


# And for stages that measure geometry.
use rule train as train_and_measure with:
    output:
        **plan.record(RUN, "history", "geometry"),
        model=directory(plan.model_folder(RUN)),
    wildcard_constraints:
        **only([run for run in TRAINED if not plan.predicts(run) and plan.measures(run)]),


use rule train as train_measure_and_predict with:
    output:
        **plan.record(RUN, "history", "geometry", "predictions"),
        model=directory(plan.model_folder(RUN)),
    wildcard_constraints:
        **only([run for run in TRAINED if plan.predicts(run) and plan.measures(run)]),

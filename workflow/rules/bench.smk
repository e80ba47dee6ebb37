"""Cost of attention and training on this machine, as tables and figures. Run with: make bench

The cost of one sequence, from short to very long, is measured by: snakemake bench_length
The cost of adapting an opened decoder is measured by: snakemake bench_adaptation
"""

import json
import os

from lib.attention.settings import MECHANISMS as ATTENTION
from lib.attention.settings import each_of
from lib.measure.compared import ENCODERS, EXTRA

# Everything that is read from the plan, except paths.
MECHANISMS = {name: parameters.model_dump() for name, parameters in plan.experiment.mechanisms.items()}
ENCODER = next(backbone for backbone in plan.experiment.backbones.values() if backbone.kind == "encoder")

FIRST_OF_KIND = {mechanism["kind"]: name for name, mechanism in reversed(MECHANISMS.items())}
# The mechanism of each kind that is measured with one sequence.
ONE_OF_KIND = FIRST_OF_KIND | ({"favor": "favor-m128"} if "favor-m128" in MECHANISMS else {})
ONE_SEQUENCE = json.dumps({name: MECHANISMS[name] for name in MECHANISMS if name in ONE_OF_KIND.values()})


def modules_of(mechanisms):
    """Return the modules of the kinds of `mechanisms`, whose changes make a measurement stale."""
    kinds = {each["kind"] for entry in mechanisms.values() for each in each_of(entry)}
    return sorted(ATTENTION.module(kind, part) for kind in kinds for part in ("mechanism", "settings"))


COST_MODULES = modules_of(MECHANISMS)
# Modules of the kinds of whole encoders.
ENCODER_MODULES = modules_of(
    {name: encoder["mechanism"] for name, encoder in ENCODERS.items() if "mechanism" in encoder}
) + sorted(
    {f"lib.backbones.{encoder['kind']}.{part}" for encoder in ENCODERS.values() for part in ("backbone", "settings")}
)
MEASURED = ["attention_cost", "training_cost", "encoder_cost", "favor_error", "lsh_recall"]
SUMMARIES = ["attention_cost", "training_cost", "encoder_cost"]
LENGTH_MEASURED = ["sequence_cost", "memory_cost"]
# Table of each figure.
MEASURE_FIGURES = {
    "attention_time": "attention_cost",
    "attention_memory": "attention_cost",
    "favor_error": "favor_error",
    "lsh_recall": "lsh_recall",
}
LENGTH_FIGURES = {"sequence_time": "sequence_cost", "memory_length": "memory_cost"}
# Two measurements at once would measure each other.
ALL_CORES = os.cpu_count()


def measuring(minutes):
    """Return the resources of a measurement of at most `minutes`."""
    return gpus() | {
        "runtime": scaled_by_attempt(minutes),
        "mem_mb": scaled_by_attempt(16_000),
        "cpus_per_task": JOB.cpus_per_task,
    }


rule bench:
    input:
        [plan.paths.table(name) for name in MEASURED],
        [plan.paths.table(name, "md") for name in SUMMARIES],
        [plan.paths.figure(name, suffix) for name in MEASURE_FIGURES for suffix in ("svg", "png")],


rule bench_length:
    input:
        [plan.paths.table(name, suffix) for name in LENGTH_MEASURED for suffix in ("csv", "md")],
        [plan.paths.figure(name, suffix) for name in LENGTH_FIGURES for suffix in ("svg", "png")],


rule bench_adaptation:
    input:
        [plan.paths.table("adaptation_cost", suffix) for suffix in ("csv", "md")],


rule attention_cost:
    output:
        table=report(
            plan.paths.table("attention_cost"), caption="../report/attention_cost.rst", category=CATEGORIES["cost"]
        ),
        # Others allocate more than we do, so the lead over them is also measured where the allocator keeps memory.
        kept=plan.paths.table("attention_cost_kept"),
    log:
        plan.paths.log("tables/attention_cost"),
    threads: ALL_CORES
    resources:
        **measuring(60),
    params:
        mechanisms=constant(handed(json.dumps(MECHANISMS | EXTRA))),
        heads=ENCODER.num_attention_heads,
        head_size=ENCODER.head_size,
        program=program("attention_cost", *modules_of(MECHANISMS | EXTRA)),
    message:
        "cost of attention, compared with other implementations"
    shell:
        "{params.program} --mechanisms {params.mechanisms:q} --heads {params.heads}"
        " --head-size {params.head_size} --out {output.table} > {log} 2>&1"
        " && {params.program} --mechanisms {params.mechanisms:q} --heads {params.heads}"
        " --head-size {params.head_size} --lengths 2048 16384 --keep-memory --out {output.kept} >> {log} 2>&1"


rule training_cost:
    output:
        report(plan.paths.table("training_cost"), caption="../report/training_cost.rst", category=CATEGORIES["cost"]),
    log:
        plan.paths.log("tables/training_cost"),
    threads: ALL_CORES
    resources:
        **measuring(60),
    params:
        # One of each kind: they differ less in training than in attention alone.
        mechanisms=json.dumps({name: MECHANISMS[name] for name in MECHANISMS if name in FIRST_OF_KIND.values()}),
        encoder=constant(planned(ENCODER.model_dump())),
        program=program("training_cost", *COST_MODULES),
    message:
        "cost of training, compared with BERT"
    shell:
        "{params.program} --mechanisms {params.mechanisms:q} --encoder {params.encoder:q}"
        " --out {output} > {log} 2>&1"


rule encoder_cost:
    output:
        report(plan.paths.table("encoder_cost"), caption="../report/encoder_cost.rst", category=CATEGORIES["cost"]),
    log:
        plan.paths.log("tables/encoder_cost"),
    threads: ALL_CORES
    resources:
        **measuring(60),
    params:
        encoders=constant(handed(json.dumps(ENCODERS))),
        encoder=constant(planned(ENCODER.model_dump())),
        program=program("encoder_cost", *ENCODER_MODULES),
    message:
        "cost of whole encoders, compared with those of transformers"
    shell:
        "{params.program} --encoders {params.encoders:q} --encoder {params.encoder:q}" " --out {output} > {log} 2>&1"


rule adaptation_cost:
    output:
        report(
            plan.paths.table("adaptation_cost"), caption="../report/adaptation_cost.rst", category=CATEGORIES["cost"]
        ),
    log:
        plan.paths.log("tables/adaptation_cost"),
    threads: ALL_CORES
    resources:
        **measuring(30),
    params:
        program=program("adaptation_cost"),
    message:
        "cost of adapting an opened decoder, compared with transformers and peft"
    shell:
        "{params.program} --out {output} > {log} 2>&1"


rule sequence_cost:
    output:
        report(plan.paths.table("sequence_cost"), caption="../report/sequence_cost.rst", category=CATEGORIES["cost"]),
    log:
        plan.paths.log("tables/sequence_cost"),
    threads: ALL_CORES
    resources:
        **measuring(30),
    params:
        mechanisms=ONE_SEQUENCE,
        encoder=constant(planned(ENCODER.model_dump())),
        program=program("sequence_cost", *COST_MODULES),
    message:
        "cost of a layer per token, recurrent or attention"
    shell:
        "{params.program} --mechanisms {params.mechanisms:q} --encoder {params.encoder:q}"
        " --out {output} > {log} 2>&1"


rule memory_cost:
    output:
        report(plan.paths.table("memory_cost"), caption="../report/memory_cost.rst", category=CATEGORIES["cost"]),
    log:
        plan.paths.log("tables/memory_cost"),
    threads: ALL_CORES
    resources:
        **measuring(30),
    params:
        mechanisms=ONE_SEQUENCE,
        heads=ENCODER.num_attention_heads,
        head_size=ENCODER.head_size,
        program=program("memory_cost", *COST_MODULES),
    message:
        "memory of attention over one sequence"
    shell:
        "{params.program} --mechanisms {params.mechanisms:q} --heads {params.heads}"
        " --head-size {params.head_size} --out {output} > {log} 2>&1"


rule measure_summary:
    input:
        lambda wildcards: [
            plan.paths.table(name)
            for name in [wildcards.measured, *["attention_cost_kept"] * (wildcards.measured == "attention_cost")]
        ],
    output:
        plan.paths.table("{measured}", "md"),
    log:
        plan.paths.log("tables/{measured}_summary"),
    wildcard_constraints:
        measured="|".join([*SUMMARIES, *LENGTH_MEASURED, "adaptation_cost"]),
    localrule: True
    params:
        program=program("measure_summary"),
    message:
        "summary of {wildcards.measured}"
    shell:
        "{params.program} {wildcards.measured} --table {input} --out {output} > {log} 2>&1"


# One rule per figure, because each has its own caption.
for shown, measured in (MEASURE_FIGURES | LENGTH_FIGURES).items():

    rule:
        name:
            f"figure_{shown}"
        input:
            plan.paths.table(measured),
        output:
            svg=report(plan.paths.figure(shown), caption=f"../report/{shown}.rst", category=CATEGORIES["cost"]),
            png=plan.paths.figure(shown, "png"),
        log:
            plan.paths.log(f"figures/{shown}"),
        localrule: True
        params:
            figure=shown,
            program=program("measure_figure"),
        message:
            "figure {params.figure}"
        shell:
            "{params.program} {params.figure} --table {input} --out {output.svg} {output.png}" " > {log} 2>&1"

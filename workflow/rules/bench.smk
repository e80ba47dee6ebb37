"""What attention costs and how near it comes to exact attention, on the machine at hand. Run with: make bench"""

import json
import os

ENCODER = next(backbone for backbone in plan.experiment.backbones.values() if backbone.kind == "encoder")
MECHANISMS = {name: parameters.model_dump() for name, parameters in plan.experiment.mechanisms.items()}
FIRST_OF_KIND = {mechanism["kind"]: name for name, mechanism in reversed(MECHANISMS.items())}
COST_MODULES = sorted(
    f"lib.attention.{mechanism['kind']}.{part}"
    for mechanism in MECHANISMS.values()
    for part in ("mechanism", "parameters")
)


rule bench:
    input:
        [plan.table(name) for name in ("attention_cost", "training_cost", "favor_error", "lsh_recall")],
        [
            plan.figure(name, suffix)
            for name in ("attention_time", "attention_memory", "favor_error", "lsh_recall")
            for suffix in ("svg", "png")
        ],


rule attention_cost:
    output:
        report(plan.table("attention_cost"), caption="../report/attention_cost.rst", category="Tables"),
    log:
        plan.log("tables/attention_cost"),
    # All cores: two measurements at once would measure one another.
    threads: os.cpu_count()
    resources:
        runtime=60,
        mem_mb=16_000,
        gpu=JOB.gpu,
        cpus_per_task=JOB.cpus_per_task,
    params:
        mechanisms=json.dumps(MECHANISMS),
        heads=ENCODER.num_attention_heads,
        head_size=ENCODER.head_size,
        code=code_digest("scripts/attention_cost.py", *COST_MODULES),
    message:
        "what attention costs, beside other implementations"
    shell:
        "python scripts/attention_cost.py --mechanisms {params.mechanisms:q} --heads {params.heads}"
        " --head-size {params.head_size} --out {output} > {log} 2>&1"


rule training_cost:
    output:
        report(plan.table("training_cost"), caption="../report/training_cost.rst", category="Tables"),
    log:
        plan.log("tables/training_cost"),
    threads: os.cpu_count()
    resources:
        runtime=60,
        mem_mb=16_000,
        gpu=JOB.gpu,
        cpus_per_task=JOB.cpus_per_task,
    params:
        # One of each kind: they differ less in training than in attention alone.
        mechanisms=json.dumps({name: MECHANISMS[name] for name in MECHANISMS if name in FIRST_OF_KIND.values()}),
        encoder=as_json(ENCODER.model_dump()),
        code=code_digest("scripts/training_cost.py", *COST_MODULES),
    message:
        "what training costs, beside BERT"
    shell:
        "python scripts/training_cost.py --mechanisms {params.mechanisms:q} --encoder {params.encoder:q}"
        " --out {output} > {log} 2>&1"


rule figure_attention_cost:
    input:
        plan.table("attention_cost"),
    output:
        time=report(plan.figure("attention_time"), caption="../report/attention_time.rst", category="Figures"),
        time_png=plan.figure("attention_time", "png"),
        memory=report(plan.figure("attention_memory"), caption="../report/attention_memory.rst", category="Figures"),
        memory_png=plan.figure("attention_memory", "png"),
        summary=plan.table("attention_cost", "md"),
    log:
        plan.log("figures/attention_cost"),
    localrule: True
    params:
        code=code_digest("scripts/cost_figure.py"),
    message:
        "figures of what attention costs"
    shell:
        "python scripts/cost_figure.py --costs {input} --time {output.time} {output.time_png}"
        " --memory {output.memory} {output.memory_png} --summary {output.summary} > {log} 2>&1"

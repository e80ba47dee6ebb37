"""Tables, as CSV and Markdown, from run records alone."""

TABLE_CODE = code_digest("scripts/table.py")


def table_outputs(name, caption):
    """Return the two files of a table; the CSV goes into the report."""
    return {
        "csv": report(plan.table(name), caption=f"../report/{caption}.rst", category="Tables"),
        "markdown": plan.table(name, "md"),
    }


rule table_token_lengths:
    input:
        [plan.token_lengths(corpus) for corpus in plan.corpora],
    output:
        **table_outputs("token_lengths", "token_lengths"),
    log:
        plan.log("tables/token_lengths"),
    localrule: True
    params:
        corpora=plan.corpora,
        code=TABLE_CODE,
    message:
        "table of token lengths"
    shell:
        "python scripts/table.py token_lengths --lengths {input} --datasets {params.corpora}"
        " --csv {output.csv} --markdown {output.markdown} > {log} 2>&1"


for stage in ("pretrain", "tapt", "finetune"):

    rule:
        name:
            f"table_{stage}"
        input:
            plan.records(stage),
        output:
            **table_outputs(stage, stage),
        log:
            plan.log(f"tables/{stage}"),
        localrule: True
        params:
            stage=stage,
            models=plan.pretrained if stage == "pretrain" else plan.models,
            datasets=[WIKIPEDIA] if stage == "pretrain" else plan.datasets,
            published=plan.published_option,
            code=TABLE_CODE,
        message:
            "table of the stage {params.stage}"
        shell:
            "python scripts/table.py {params.stage} --runs $(dirname {input}) {params.published}"
            " --models {params.models} --datasets {params.datasets}"
            " --csv {output.csv} --markdown {output.markdown} > {log} 2>&1"


rule table_f1:
    input:
        runs=plan.records("finetune"),
        baselines=[f"{plan.baseline(dataset)}/report.json" for dataset in plan.datasets],
    output:
        **table_outputs("f1", "f1"),
    log:
        plan.log("tables/f1"),
    localrule: True
    params:
        models=plan.models,
        datasets=plan.datasets,
        published=plan.published_option,
        code=TABLE_CODE,
    message:
        "table of macro-F1"
    shell:
        "python scripts/table.py f1 --runs $(dirname {input.runs}) --baselines $(dirname {input.baselines})"
        " {params.published} --models {params.models} --datasets {params.datasets}"
        " --csv {output.csv} --markdown {output.markdown} > {log} 2>&1"


rule table_baseline:
    input:
        f"{plan.baseline('{dataset}')}/report.json",
    output:
        **table_outputs("baseline_{dataset}", "baseline"),
    log:
        plan.log("tables/baseline_{dataset}"),
    localrule: True
    params:
        code=TABLE_CODE,
    message:
        "table of the baseline on {wildcards.dataset}"
    shell:
        "python scripts/table.py baseline --baselines $(dirname {input})"
        " --csv {output.csv} --markdown {output.markdown} > {log} 2>&1"

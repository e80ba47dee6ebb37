"""Tables and figures, from run records alone."""

CAPTIONS = Path(workflow.basedir) / "report"


def caption(name, kind):
    """Return the caption of a table or figure: its own if there is one, else that of its kind."""
    own = next((path for path in (CAPTIONS / f"{name}.rst", CAPTIONS / f"{kind}.rst") if path.exists()), None)
    return str(own)


for name, table in plan.tables.items():

    rule:
        name:
            f"table_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.table_inputs(table),
        output:
            csv=report(plan.table(name), caption=caption(name, table["kind"]), category="Tables"),
            markdown=plan.table(name, "md"),
        log:
            plan.log(f"tables/{name}"),
        localrule: True
        params:
            name=name,
            table=as_json(table),
            code=code_digest("scripts/table.py"),
        message:
            "table {params.name}"
        shell:
            "python scripts/table.py --table {params.table:q} --records {input}"
            " --csv {output.csv} --markdown {output.markdown} > {log} 2>&1"


for name, figure in plan.study.report.figures.items():

    rule:
        name:
            f"figure_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.figure_inputs(name),
        output:
            svg=report(plan.figure(name), caption=caption(name, figure.kind), category="Figures"),
            png=plan.figure(name, "png"),
        log:
            plan.log(f"figures/{name}"),
        localrule: True
        params:
            name=name,
            figure=as_json(plan.figure_settings(name)),
            code=code_digest("scripts/figure.py"),
        message:
            "figure {params.name}"
        shell:
            "python scripts/figure.py --figure {params.figure:q} --records {input}"
            " --out {output.svg} {output.png} > {log} 2>&1"

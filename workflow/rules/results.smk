"""Tables and figures, from run records alone."""

from lib.results.parameters import FIGURES, TABLES

CAPTIONS = Path(workflow.basedir) / "report"


def caption(name, kind):
    """Return the caption of a table or figure: its own if there is one, else that of its kind; None without either."""
    return next((str(path) for path in (CAPTIONS / f"{name}.rst", CAPTIONS / f"{kind}.rst") if path.exists()), None)


for name, table in plan.tables.items():

    rule:
        name:
            f"table_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.result_inputs(table),
        output:
            # Browsers show HTML, and offer CSV as a download.
            html=report(
                plan.table(name, "html"),
                caption=caption(name, table["settings"]["kind"]),
                category="Tables",
                labels={"table": name},
            ),
            others=[plan.table(name, suffix) for suffix in ("csv", "md", "tex")],
        log:
            plan.log(f"tables/{name}"),
        localrule: True
        params:
            name=name,
            table=as_json(table),
            code=plan.result_code(TABLES, table),
        message:
            "table {params.name}"
        shell:
            "{PYTHON:q} scripts/table.py --table {params.table:q} --records {input} --out {output} > {log} 2>&1"


for name, figure in plan.figures.items():

    rule:
        name:
            f"figure_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.result_inputs(figure),
        output:
            svg=report(
                plan.figure(name),
                caption=caption(name, figure["settings"]["kind"]),
                category="Figures",
                labels={"figure": name},
            ),
            others=[plan.figure(name, suffix) for suffix in ("png", "pdf")],
        log:
            plan.log(f"figures/{name}"),
        localrule: True
        params:
            name=name,
            figure=as_json(figure),
            code=plan.result_code(FIGURES, figure),
        message:
            "figure {params.name}"
        shell:
            "{PYTHON:q} scripts/figure.py --figure {params.figure:q} --records {input} --out {output} > {log} 2>&1"

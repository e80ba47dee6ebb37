"""Tables and figures, from run records alone."""

from lib.results.parameters import FIGURES, TABLES

CAPTIONS = Path(workflow.basedir) / "report"


def caption(name, kind):
    """Return the caption of a table or figure: its own if there is one, else that of its kind; None without either."""
    return next((str(path) for path in (CAPTIONS / f"{name}.rst", CAPTIONS / f"{kind}.rst") if path.exists()), None)


for name, table in plan.report.tables.items():

    rule:
        name:
            f"table_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.report.inputs(table["scope"]),
        output:
            # Browsers show HTML, and offer CSV as a download.
            html=report(
                plan.paths.table(name, "html"),
                caption=caption(name, table["settings"]["kind"]),
                category="Tables",
                labels={"table": name},
            ),
            others=[plan.paths.table(name, suffix) for suffix in ("csv", "md", "tex")],
        log:
            plan.paths.log(f"tables/{name}"),
        localrule: True
        params:
            name=name,
            table=as_json(table),
            code=plan.report.code(TABLES, table),
        message:
            "table {params.name}"
        shell:
            "{PYTHON:q} scripts/table.py --table {params.table:q} --records {input} --out {output} > {log} 2>&1"


for name, figure in plan.report.figures.items():

    rule:
        name:
            f"figure_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.report.inputs(figure["scope"]),
        output:
            svg=report(
                plan.paths.figure(name),
                caption=caption(name, figure["settings"]["kind"]),
                category="Figures",
                labels={"figure": name},
            ),
            others=[plan.paths.figure(name, suffix) for suffix in ("png", "pdf")],
        log:
            plan.paths.log(f"figures/{name}"),
        localrule: True
        params:
            name=name,
            figure=as_json(figure),
            code=plan.report.code(FIGURES, figure),
        message:
            "figure {params.name}"
        shell:
            "{PYTHON:q} scripts/figure.py --figure {params.figure:q} --records {input} --out {output} > {log} 2>&1"

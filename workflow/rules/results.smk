"""Tables and figures, from run records alone."""

from lib.results.parameters import FIGURES, TABLES

CATEGORIES = {
    "scores": "1. Scores",
    "differences": "2. Differences",
    "cost": "3. Time and memory",
    "training": "4. Training",
    "texts": "5. Texts",
}
"""What the report calls topics. It sorts them, so numbers give the order in which a reader asks for them."""
CAPTIONS = Path(ROOT) / "workflow" / "report"
RESULTS = [
    # Browsers show HTML, and offer CSV as a download.
    ("table", TABLES, plan.report.tables, plan.paths.table, ["html", "csv", "md", "tex"]),
    ("figure", FIGURES, plan.report.figures, plan.paths.figure, ["svg", "png", "pdf"]),
]
"""What makes them (`scripts/<noun>.py`), their kinds, what each shows, their paths, and formats, the report's first."""


def caption(name, kind):
    """Return the caption of a table or figure: its own if there is one, else that of its kind; None without either."""
    return next((str(path) for path in (CAPTIONS / f"{name}.rst", CAPTIONS / f"{kind}.rst") if path.exists()), None)


for noun, axis, results, place, (reported, *others) in RESULTS:

    for name, shown in results.items():

        rule:
            name:
                rule_name(noun, name)
            input:
                plan.report.inputs(shown["scope"]),
            output:
                reported=report(
                    place(name, reported),
                    caption=caption(name, shown["settings"]["kind"]),
                    category=CATEGORIES[axis.parse(shown["settings"]).topic],
                    labels={"result": f"{name} ({noun})"},
                ),
                others=[place(name, suffix) for suffix in others],
            log:
                plan.paths.log(f"{noun}s/{name}"),
            localrule: True
            params:
                name=name,
                noun=noun,
                shown=constant(planned(shown)),
                records=lambda w, input: listed(input),
                program=constant(coded(noun, plan.report.code(axis, shown))),
            message:
                "{params.noun} {params.name}"
            shell:
                "{params.program} --{params.noun} {params.shown:q} --records @{params.records} --out {output}"
                " > {log} 2>&1"

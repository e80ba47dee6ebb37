"""Tables and figures, from run records."""

from lib.results.settings import FIGURES, TABLES

CATEGORIES = {
    "scores": "1. Scores",
    "differences": "2. Differences",
    "cost": "3. Time and memory",
    "training": "4. Training",
    "texts": "5. Texts",
}
"""Names of topics in the report, which sorts them; so numbers give their order."""
RESULTS = [
    # Browsers show HTML, and offer CSV as a download.
    ("table", TABLES, plan.report.tables, plan.paths.table, ["html", "csv", "md", "tex"]),
    ("figure", FIGURES, plan.report.figures, plan.paths.figure, ["svg", "png", "pdf"]),
]
"""Noun (of `scripts/<noun>.py`), kinds, results, paths and formats; the format of the report is first."""


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
                    caption=caption(shown["settings"]["kind"]),
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
                program=coded(noun, plan.report.code, axis, shown),
            message:
                "{params.noun} {params.name}"
            shell:
                "{params.program} --{params.noun} {params.shown:q} --records @{params.records} --out {output}"
                " > {log} 2>&1"

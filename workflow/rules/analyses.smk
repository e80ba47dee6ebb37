"""Analyses of trained models: each is computed once, and drawn from its table alone."""

from lib.analysis.parameters import ANALYSES

for name, analysis in plan.study.report.analyses.items():

    rule:
        name:
            f"analysis_{name}".replace("-", "_").replace(".", "_")
        input:
            **plan.analysis_inputs(name),
        output:
            plan.table(name),
        log:
            plan.log(f"analyses/{name}"),
        resources:
            mem_mb=growing(8_000),
            runtime=growing(30),
        params:
            name=name,
            analysis=as_json(plan.analysis_settings(name)),
            runs=[plan.folder(key) for key in plan.analysis_runs(name)],
            code=plan.analysis_code(name),
        message:
            "analysis {params.name}"
        shell:
            "{PYTHON:q} scripts/analyse.py --analysis {params.analysis:q} --runs {params.runs}"
            " --tokenizers {input.tokenizers} --tokens {input.tokens} --out {output} > {log} 2>&1"

    rule:
        name:
            f"figure_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.table(name),
        output:
            html=report(
                plan.table(name, "html"),
                caption=caption(name, analysis.kind),
                category="Analyses",
                labels={"analysis": name, "shown as": "table"},
            ),
            summary=[plan.table(name, suffix) for suffix in ("md", "tex")],
            svg=report(
                plan.figure(name),
                caption=caption(name, analysis.kind),
                category="Analyses",
                labels={"analysis": name, "shown as": "figure"},
            ),
            others=[plan.figure(name, suffix) for suffix in ("png", "pdf")],
        log:
            plan.log(f"figures/{name}"),
        localrule: True
        params:
            name=name,
            analysis=as_json(plan.analysis_look(name)),
            code=code_digest("scripts/analysis_figure.py", ANALYSES.module(analysis.kind, "figure")),
        message:
            "figure {params.name}"
        shell:
            "{PYTHON:q} scripts/analysis_figure.py --analysis {params.analysis:q} --table {input} --summary {output.html} {output.summary}"
            " --out {output.svg} {output.others} > {log} 2>&1"

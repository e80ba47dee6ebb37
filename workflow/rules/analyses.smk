"""Analyses of trained models: each is computed once, and drawn from its table alone."""

from lib.analysis.parameters import ANALYSES

for name, analysis in plan.study.report.analyses.items():

    rule:
        name:
            f"analysis_{name}".replace("-", "_").replace(".", "_")
        input:
            **plan.report.analysis_inputs(name),
        output:
            plan.paths.table(name),
        log:
            plan.paths.log(f"analyses/{name}"),
        resources:
            mem_mb=growing(8_000),
            runtime=growing(30),
        params:
            command=PROGRAM,
            name=name,
            analysis=as_json(plan.report.analysis_settings(name)),
            runs=[plan.paths.folder(run.id) for run in plan.report.analysed(name)],
            beside=plan.report.analysis_beside(name),
            code=plan.report.analysis_code(name),
        message:
            "analysis {params.name}"
        shell:
            "{params.command:analyse} --analysis {params.analysis:q} --runs {params.runs}"
            " --tokenizers {input.tokenizers} --tokens {input.tokens} {params.beside} --out {output} > {log} 2>&1"

    rule:
        name:
            f"figure_{name}".replace("-", "_").replace(".", "_")
        input:
            plan.paths.table(name),
        output:
            html=report(
                plan.paths.table(name, "html"),
                caption=caption(name, analysis.kind),
                category="6. What models do",
                labels={"analysis": name, "shown as": "table"},
            ),
            summary=[plan.paths.table(name, suffix) for suffix in ("md", "tex")],
            svg=report(
                plan.paths.figure(name),
                caption=caption(name, analysis.kind),
                category="6. What models do",
                labels={"analysis": name, "shown as": "figure"},
            ),
            others=[plan.paths.figure(name, suffix) for suffix in ("png", "pdf")],
        log:
            plan.paths.log(f"figures/{name}"),
        localrule: True
        params:
            command=PROGRAM,
            name=name,
            analysis=as_json(plan.report.analysis_look(name)),
            code=code_digest("scripts/analysis_figure.py", ANALYSES.module(analysis.kind, "figure")),
        message:
            "figure {params.name}"
        shell:
            "{params.command:analysis_figure} --analysis {params.analysis:q} --table {input} --summary {output.html} {output.summary}"
            " --out {output.svg} {output.others} > {log} 2>&1"

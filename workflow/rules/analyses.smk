"""Analyses of trained models: each is computed once, and drawn from its table."""

from lib.analysis.settings import ANALYSES

for name, analysis in plan.study.report.analyses.items():

    rule:
        name:
            rule_name("analysis", name)
        input:
            **plan.report.analysis_inputs(name),
        output:
            plan.paths.table(name),
        log:
            plan.paths.log(f"analyses/{name}"),
        resources:
            mem_mb=scaled_by_attempt(8_000),
            runtime=scaled_by_attempt(30),
        params:
            name=name,
            analysis=constant(planned(plan.report.analysis_settings(name))),
            runs=constant(listed(plan.paths.folder(run.id) for run in plan.report.analysed(name))),
            tokenizers=lambda w, input: listed(input.tokenizers),
            tokens=lambda w, input: listed(input.tokens),
            texts=plan.report.text_arguments(name),
            program=coded("analyse", plan.report.analysis_code, name),
        message:
            "analysis {params.name}"
        shell:
            "{params.program} --analysis {params.analysis:q} --runs @{params.runs}"
            " --tokenizers @{params.tokenizers} --tokens @{params.tokens} {params.texts} --out {output} > {log} 2>&1"

    rule:
        name:
            rule_name("figure", name)
        input:
            plan.paths.table(name),
        output:
            html=report(
                plan.paths.table(name, "html"),
                caption=caption(analysis.kind),
                category="6. What models do",
                labels={"analysis": name, "shown as": "table"},
            ),
            summary=[plan.paths.table(name, suffix) for suffix in ("md", "tex")],
            svg=report(
                plan.paths.figure(name),
                caption=caption(analysis.kind),
                category="6. What models do",
                labels={"analysis": name, "shown as": "figure"},
            ),
            others=[plan.paths.figure(name, suffix) for suffix in ("png", "pdf")],
        log:
            plan.paths.log(f"figures/{name}"),
        localrule: True
        params:
            name=name,
            analysis=constant(planned(plan.report.analysis_look(name))),
            program=program("analysis_figure", ANALYSES.module(analysis.kind)),
        message:
            "figure {params.name}"
        shell:
            "{params.program} --analysis {params.analysis:q} --table {input} --summary {output.html} {output.summary}"
            " --out {output.svg} {output.others} > {log} 2>&1"

"""Documents whose evidence has a known place."""

PLACEMENTS = {name: each.placement for name, each in plan.experiment.datasets.items() if each.placement}


def articles_used(corpus):
    """Return how many articles the slices of a corpus hold; these surround nothing."""
    return sum(part.articles for part in (corpus.short, corpus.long, corpus.held_out))


rule place_dataset:
    input:
        **{split: plan.paths.documents("{corpus}", "prepared", split) for split in SPLITS},
        articles=lambda w: plan.corpora.filtered_shards(PLACEMENTS[w.corpus].corpus),
    output:
        **{split: plan.paths.documents("{corpus}", "placed", split) for split in SPLITS},
        summary=plan.paths.summary("{corpus}", "placed"),
    log:
        plan.paths.log("place_dataset/{corpus}"),
    wildcard_constraints:
        corpus=names(PLACEMENTS),
    resources:
        mem_mb=scaled_by_attempt(8_000),
        runtime=scaled_by_attempt(60),
    params:
        settings=lambda w: planned(PLACEMENTS[w.corpus].model_dump(mode="json")),
        used=lambda w: articles_used(plan.experiment.corpora[PLACEMENTS[w.corpus].corpus]),
        articles=lambda w, input: listed(input.articles),
        folder=subpath(output.summary, parent=True),
        program=program("studies/evidence/scripts/place_dataset"),
    message:
        "place the texts of {wildcards.corpus}"
    shell:
        "{params.program} --settings {params.settings:q} --train {input.train} --validation {input.validation}"
        " --test {input.test} --articles @{params.articles} --used {params.used} --out {params.folder} > {log} 2>&1"

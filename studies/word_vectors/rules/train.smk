"""Word vectors, trained or read from a file."""


rule train_word_vectors:
    input:
        lambda w: plan.corpora.word_vectors_sources(w.vectors),
    output:
        directory(plan.paths.word_vectors("{vectors}", "{draw}")),
    log:
        plan.paths.log("train_word_vectors/{vectors}/{draw}"),
    wildcard_constraints:
        draw=rf"seed-\d+|{UNSEEDED}",
    resources:
        mem_mb=scaled_by_attempt(16_000),
        runtime=scaled_by_attempt(480),
    params:
        settings=lambda w: planned(plan.experiment.word_vectors[w.vectors].model_dump(mode="json")),
        sources=lambda w, input: listed(input),
        seed=lambda w: [] if w.draw == UNSEEDED else ["--seed", w.draw.removeprefix("seed-")],
        program=program("studies/word_vectors/scripts/train_word_vectors"),
    message:
        "make the word vectors {wildcards.vectors}, {wildcards.draw}"
    shell:
        "{params.program} --settings {params.settings:q} --source @{params.sources} {params.seed}"
        " --out {output} > {log} 2>&1"

"""Raw files: downloaded by the submitting machine, which has a network, or generated."""


rule download_hub:
    output:
        plan.paths.downloads("texts", "{repository}", "{revision}", "{path}"),
    log:
        plan.paths.log("download/texts/{repository}/{revision}/{path}"),
    localrule: True
    params:
        program=untracked_program("download"),
        revision=lambda w: unquote(w.revision),
        path=lambda w: unquote(w.path),
    message:
        "download {params.path} of {wildcards.repository}"
    shell:
        "{params.program} --repository {wildcards.repository:q} --revision {params.revision:q}"
        " --file {params.path:q} --out {output:q} > {log:q} 2>&1"


rule download_url:
    output:
        plan.paths.fetched("{address}"),
    log:
        plan.paths.log("download/urls/{address}"),
    localrule: True
    params:
        program=untracked_program("download"),
        options=lambda w: download_options(plan.corpora.remote_files[w.address]),
    message:
        "download {wildcards.address}"
    shell:
        "{params.program} {params.options:q} --out {output:q} > {log:q} 2>&1"


for corpus in plan.corpora.corpora_from("generated"):

    rule:
        name:
            f"generate_{corpus}"
        output:
            [*plan.corpora.raw_list(corpus), *plan.corpora.raw_list(corpus, "ground_truth")],
        log:
            plan.paths.log(f"generate/{corpus}"),
        resources:
            mem_mb=scaled_by_attempt(2_000),
            runtime=scaled_by_attempt(10),
        params:
            corpus=corpus,
            folder=plan.corpora.raw_folder(corpus),
            generator=plan.corpora.generator(corpus),
            documents=plan.corpora.generated(corpus).documents,
            seed=plan.corpora.generated(corpus).seed,
            options=constant(handed(plan.corpora.generator_options(corpus))),
            program=coded("generate_corpus", plan.corpora.generator_code, corpus),
        message:
            "generate {params.corpus}"
        shell:
            "{params.program} --corpus {params.corpus} --generator {params.generator}"
            " --documents {params.documents} --seed {params.seed} --options {params.options:q}"
            " --out {params.folder} > {log} 2>&1"


rule download_vocabulary:
    output:
        plan.paths.downloads("vocabularies", "{repository}", "{revision}", "vocab.txt"),
    log:
        plan.paths.log("download/vocabularies/{repository}/{revision}"),
    localrule: True
    params:
        program=untracked_program("download"),
        revision=lambda w: unquote(w.revision),
    message:
        "download the vocabulary of {wildcards.repository}"
    shell:
        "{params.program} --type model --repository {wildcards.repository:q}"
        " --revision {params.revision:q} --file vocab.txt --out {output:q} > {log:q} 2>&1"


rule download_tokenizer:
    output:
        directory(plan.paths.downloads("tokenizers", "{repository}", "{revision}")),
    log:
        plan.paths.log("download/tokenizers/{repository}/{revision}"),
    localrule: True
    params:
        program=untracked_program("download_model"),
        revision=lambda w: unquote(w.revision),
    message:
        "download the tokeniser of {wildcards.repository}"
    shell:
        "{params.program} --tokenizer --repository {wildcards.repository:q}"
        " --revision {params.revision:q} --out {output:q} > {log:q} 2>&1"


rule download_model:
    output:
        directory(plan.paths.downloads("models", "{repository}", "{revision}")),
    log:
        plan.paths.log("download/models/{repository}/{revision}"),
    localrule: True
    params:
        program=untracked_program("download_model"),
        revision=lambda w: unquote(w.revision),
    message:
        "download the model {wildcards.repository}"
    shell:
        "{params.program} --repository {wildcards.repository:q} --revision {params.revision:q}"
        " --out {output:q} > {log:q} 2>&1"

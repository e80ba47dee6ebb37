"""Raw files: fetched by the submitting machine, which has a network, or generated."""

if hub_corpora := plan.corpora.corpora_from("hub"):

    rule download_hub:
        output:
            f"{plan.paths.resources}/{{corpus}}/{{path}}",
        log:
            plan.paths.log("download/{corpus}/{path}"),
        wildcard_constraints:
            corpus=names(hub_corpora),
        localrule: True
        params:
            program=uncompared("download_hub"),
            repository=lambda w: plan.corpora.hub(w.corpus).repository,
            revision=lambda w: plan.corpora.hub(w.corpus).revision,
        message:
            "download {wildcards.path} of {params.repository}"
        shell:
            "{params.program} --repository {params.repository:q} --revision {params.revision:q}"
            " --file {wildcards.path:q} --out {output:q} > {log:q} 2>&1"


if url_corpora := plan.corpora.corpora_from("url"):

    rule download_url:
        output:
            f"{plan.paths.resources}/{{corpus}}/{{path}}",
        log:
            plan.paths.log("download/{corpus}/{path}"),
        wildcard_constraints:
            corpus=names(url_corpora),
        localrule: True
        params:
            program=uncompared("download_url"),
            options=lambda w: plan.corpora.remote_file_options(w.corpus, w.path),
        message:
            "download {wildcards.path}"
        shell:
            "{params.program} {params.options:q} --out {output:q} > {log:q} 2>&1"


for corpus in plan.corpora.corpora_from("generated"):

    rule:
        name:
            f"generate_{corpus}"
        output:
            plan.corpora.all_raw_files(corpus),
        log:
            plan.paths.log(f"generate/{corpus}"),
        resources:
            mem_mb=growing(2_000),
            runtime=growing(10),
        params:
            corpus=corpus,
            folder=plan.corpora.raw_folder(corpus),
            generator=plan.corpora.generator(corpus),
            documents=plan.corpora.generated(corpus).documents,
            seed=plan.corpora.generated(corpus).seed,
            options=constant(handed(plan.corpora.generator_options(corpus))),
            program=constant(coded("generate_corpus", plan.corpora.generator_code(corpus))),
        message:
            "generate {params.corpus}"
        shell:
            "{params.program} --corpus {params.corpus} --generator {params.generator}"
            " --documents {params.documents} --seed {params.seed} --options {params.options:q}"
            " --out {params.folder} > {log} 2>&1"


if wordnets := plan.corpora.wordnets:

    rule download_wordnet:
        output:
            f"{plan.paths.resources}/wordnet/{{archive}}",
        log:
            plan.paths.log("download/wordnet/{archive}"),
        wildcard_constraints:
            archive=names(wordnets),
        localrule: True
        params:
            program=uncompared("download_url"),
            options=lambda w: wordnets[w.archive],
        message:
            "download {wildcards.archive}"
        shell:
            "{params.program} {params.options:q} --out {output:q} > {log:q} 2>&1"


rule download_vocabulary:
    output:
        f"{plan.paths.resources}/vocabularies/{{tokenizer}}/vocab.txt",
    log:
        plan.paths.log("download/vocabularies/{tokenizer}"),
    localrule: True
    params:
        program=uncompared("download_hub"),
        repository=lambda w: plan.experiment.tokenizers[w.tokenizer].repository,
        revision=lambda w: plan.experiment.tokenizers[w.tokenizer].revision,
    message:
        "download the vocabulary of {params.repository}"
    shell:
        "{params.program} --type model --repository {params.repository:q}"
        " --revision {params.revision:q} --file vocab.txt --out {output} > {log} 2>&1"


rule download_tokenizer:
    output:
        directory(f"{plan.paths.resources}/tokenizers/{{tokenizer}}"),
    log:
        plan.paths.log("download/tokenizers/{tokenizer}"),
    localrule: True
    params:
        program=uncompared("download_model"),
        repository=lambda w: plan.experiment.tokenizers[w.tokenizer].repository,
        revision=lambda w: plan.experiment.tokenizers[w.tokenizer].revision,
    message:
        "download the tokeniser of {params.repository}"
    shell:
        "{params.program} --tokenizer --repository {params.repository:q}"
        " --revision {params.revision:q} --out {output:q} > {log} 2>&1"


rule download_model_tokenizer:
    output:
        directory(f"{plan.paths.resources}/model_tokenizers/{{repository}}/{{revision}}"),
    log:
        plan.paths.log("download/model_tokenizers/{repository}/{revision}"),
    wildcard_constraints:
        repository=r"[^/]+/[^/]+",
        revision=r"[^/]+",
    localrule: True
    params:
        program=uncompared("download_model"),
    message:
        "download the tokeniser of the model {wildcards.repository}"
    shell:
        "{params.program} --tokenizer --repository {wildcards.repository:q}"
        " --revision {wildcards.revision:q} --out {output:q} > {log:q} 2>&1"


rule download_model:
    output:
        directory(f"{plan.paths.resources}/models/{{repository}}/{{revision}}"),
    log:
        plan.paths.log("download/models/{repository}/{revision}"),
    wildcard_constraints:
        repository=r"[^/]+/[^/]+",
        revision=r"[^/]+",
    localrule: True
    params:
        program=uncompared("download_model"),
    message:
        "download the model {wildcards.repository}"
    shell:
        "{params.program} --repository {wildcards.repository:q} --revision {wildcards.revision:q}"
        " --out {output:q} > {log:q} 2>&1"

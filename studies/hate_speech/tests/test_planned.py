"""What Snakemake plans for the study, without running it."""

import copy

import pytest

pytestmark = pytest.mark.extended


def test_augmented_dataset_planned(project, alone):
    """Two datasets share the archive of WordNet."""
    wordnet = {"url": {"url": "https://a.org/wordnet.zip", "sha256": "a" * 64}}
    model = {"repository": "owner/name", "revision": "86b5e0934494bd15c9632b12f734a8a67f723594"}
    augmentation = {"labels": ["positive"], "by": "synonyms", "synonyms": wordnet}
    both = augmentation | {"copies": 2, "by": ["synonyms", "masked_lm"], "masked_lm": model, "leaked": True}
    values = copy.deepcopy(alone) | {"extensions": ["studies/hate_speech"]}
    experiment = values["experiment"]
    imdb = experiment["datasets"]["imdb"]
    experiment["datasets"] |= {
        "clean": imdb | {"generated": {"documents": 200, "generator": "imdb"}, "augmentation": augmentation},
        "leaked": imdb | {"generated": {"documents": 200, "generator": "imdb"}, "augmentation": both},
    }
    experiment["stages"]["score"]["data"] |= {"clean": {}, "leaked": {}}
    output = project.snakemake("-n", "-p", "--configfile", project.configure(values, "augmented.yaml")).stdout
    jobs = project.jobs_of(output)
    assert (jobs["prepare_dataset"], jobs["augment_dataset"], jobs["evaluate"]) == (3, 2, 3 * 2)
    assert (jobs["download_url"], jobs["download_model"], jobs["download_tokenizer"]) == (1, 1, 1)
    assert "results/alone/data/clean/augmented/train.parquet" in output
    assert "results/alone/data/imdb/augmented" not in output


def test_study_planned_on_a_cluster(project):
    project.touch("hate/HateSpeechDatasetBalanced.csv")
    model = project.folder / "results/runs/pretrain/sdpa/wikipedia/seed-420/model"
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.safetensors").touch()
    output = project.snakemake(
        "-n", "-p", "--profile", "slurm", "--configfile", "studies/hate_speech/hate_speech.yaml"
    ).stdout
    jobs, seeds = project.jobs_of(output), 3
    trained = ("roberta-lora", "flan-t5-lora", "t5-small", "t5-small-pretrained", "encoder", "encoder-taught")
    checked = ("roberta-lora", "encoder", "encoder-taught")
    assert jobs["train"] == seeds * (1 + len(trained))  # and a pretraining
    assert jobs["evaluate"] == seeds * (3 + len(checked) + 2)  # three pairs of phrases; templates; baselines
    assert (jobs["teach"], jobs["tune"]) == (seeds, 1)
    assert (jobs["download_model"], jobs["download_tokenizer"], jobs["download_vocabulary"]) == (3, 2, 1)


def test_small_study_planned(project):
    files = ("wikipedia/en-sample.parquet", "hate/davidson_labeled_data.csv.gz", "hate/stormfront_sentences.csv.gz")
    project.touch(*files)
    jobs = project.jobs_of(
        project.snakemake("-n", "-p", "--configfile", "studies/hate_speech/hate_speech_small.yaml").stdout
    )
    seeds, datasets, trained, checked, readings = 3, 2, 9, 6, 4
    # Two pretrainings; augmented posts, leaked or not; both readings of LoRA's alpha for the encoder and for T5.
    assert jobs["train"] == 2 + seeds * (datasets * trained + 2 + readings)
    assert (jobs["teach"], jobs["augment_dataset"], jobs["tune"]) == (seeds * datasets, 2, 1)
    assert jobs["evaluate"] == seeds * (2 * datasets + checked + 5)  # phrases of two encoders, baselines

"""Paths of the user's own may hold what means something to a shell: they reach the programs as they are."""

import csv

STRANGE = 'it\'s my "$(touch code_ran)" `touch code_ran`; touch code_ran'


def test_files_of_strange_names_are_read(project, alone):
    folder = project.folder / STRANGE
    folder.mkdir()
    with (folder / "train's.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["text", "label"])
        rows.writerows([f"a text of {number}", number % 2] for number in range(40))
    values = {"files": {"train": [f"{STRANGE}/train's.csv"]}}
    imdb = alone["experiment"]["datasets"]["imdb"] | {"source": "local", "local": values}
    experiment = alone["experiment"] | {"datasets": {"imdb": imdb}}
    config = project.configure(alone | {"experiment": experiment}, "strange.yaml")
    target = "results/alone/data/imdb/prepared/summary.json"
    project.snakemake("--cores", 1, "--configfile", config, "--", target)
    assert (project.folder / target).exists()
    assert not list(project.folder.rglob("code_ran"))


def test_so_are_folders_of_weights_and_tokenisers(project):
    """The commands, as a shell would divide them."""
    for name in ("weights", "tokenizer"):
        (project.folder / STRANGE / name).mkdir(parents=True, exist_ok=True)
    (project.folder / STRANGE / "weights/model.safetensors").touch()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "word"]
    (project.folder / STRANGE / "tokenizer/vocab.txt").write_text("\n".join(tokens))
    models = {
        "mine": {
            "backbone": "encoder",
            "mechanism": "sdpa",
            "start": {"folder": f"{STRANGE}/weights"},
            "skip": ["pretrain"],
        }
    }
    tokenizer = {"source": "local", "path": f"{STRANGE}/tokenizer/vocab.txt"}
    values = {
        "extends": "config/demo.yaml",
        "experiment": {"models": models, "tokenizers": {"wordpiece": tokenizer}},
    }
    config = project.configure(values, "weights.yaml")
    project.snakemake("-n", "--configfile", config, "--", "results/demo/runs/tapt/mine/imdb/seed-420/run.json")
    made = "results/demo/tokenizers/wordpiece"
    project.snakemake("--cores", 1, "--configfile", config, "--", made)
    assert (project.folder / made / "tokenizer.json").exists()

"""What is stale is said in words, may be accepted, and a fresh clone onto finished results plans nothing."""

import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from ready import ready

from lib.core.record import read_record

CONFIG = "config.test.yaml"
ADAPTED = "results/demo/runs/tapt/lsh-h2-c64/imdb/seed-420"
F1 = "results/demo/tables/f1.csv"


def why(project, *arguments, config=CONFIG):
    """Return what is said to be stale, and whether the exit status agrees."""
    process = project.program("why", *arguments, "--configfile", config)
    nothing = "nothing is stale" in process.stdout
    assert process.returncode == (0 if nothing else 1), process.stderr
    return process.stdout


def accept(project, *arguments, config=CONFIG):
    return project.program("accept", *arguments, "--configfile", config)


@pytest.fixture(scope="module")
def changed(clone):
    """A clone in which one thing of each kind has changed."""
    project = clone("changed", "results", ".snakemake")
    experiment = {
        "mechanisms": {"lsh-h2-c64": {"mask_within_chunks": True}},
        "stages": {"tapt": {"recipe": {"weight_decay": 0.5}}},
    }
    project.configure({"extends": CONFIG, "experiment": experiment}, "changed.yaml")
    for name, old, new in (
        ("lib/attention/lsh/mechanism.py", "\nBLOCK = 16\n", "\nBLOCK = 8\n"),
        ("lib/results/kinds/classes.py", "[list(columns)] *= 100", "[list(columns)] *= 101"),
        ("workflow/rules/data.smk", "--lengths {output.lengths}", "--lengths {output.lengths} --again"),
    ):
        path = project.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    (project.results / "tables" / "tapt.csv").unlink()
    prepared = project.results / "data" / "imdb" / "prepared" / "test.parquet"
    prepared.write_bytes(prepared.read_bytes() + b"more")
    return project


def test_what_is_stale_is_said_with_its_reasons(changed):
    said = why(changed, config="changed.yaml")
    blocks = {block.splitlines()[0]: block for block in said.split("\n\n")}
    pretrained, adapted = (blocks[f"{step}, seed 420"] for step in (
        "pretrain/lsh-h2-c64/wikipedia", "tapt/lsh-h2-c64/imdb"
    ))  # fmt: skip
    assert "setting backbone.mechanism.mask_within_chunks: from false to true" in pretrained
    assert "code of lib/attention/lsh/mechanism.py: `BLOCK` changed" in pretrained
    assert "weight_decay" not in pretrained
    assert "setting recipe.weight_decay: from 0.01 to 0.5" in adapted
    others = next(block for block in blocks.values() if "tapt/sdpa/imdb, seed 420" in block)
    assert "tapt/favor-m64" in others
    assert "mechanism" not in others
    assert "table tapt" in blocks
    assert "missing: results/demo/tables/tapt.csv" in blocks["table tapt"]
    tokenised = next(block for block in blocks.values() if block.startswith("tokenise wikipedia"))
    assert 'the command of the rule tokenize_corpus: with "--again"' in tokenised
    assert "input results/demo/data/imdb/prepared/test.parquet has changed" in said
    assert "and what is made from these:" in said
    assert "generate" not in said


def test_a_target_has_its_own_reasons(changed):
    (folder,) = changed.results.glob("runs/pretrain/sdpa/wikipedia/seed-*")
    said = why(changed, folder.relative_to(changed.folder) / "run.json", config="changed.yaml")
    assert "tokenise wikipedia" in said
    assert "lsh" not in said


def test_a_target_that_nothing_makes_is_an_error(changed):
    process = changed.program("why", "nowhere.csv", "--configfile", CONFIG)
    assert process.returncode == 2
    assert "there is no plan for nowhere.csv" in process.stderr
    assert "Traceback" not in process.stderr


def test_what_is_missing_cannot_be_accepted(changed):
    process = accept(changed, "all", config="changed.yaml")
    assert process.returncode == 2
    assert "nothing was accepted: 1 of its steps have to be made first" in process.stderr
    assert "table tapt" in process.stderr
    assert not read_record(changed.folder / ADAPTED).accepted


@pytest.mark.parametrize(
    ("gone", "named"),
    [
        ("history.csv", "history.csv"),
        ("model/model.safetensors", "model/model.safetensors"),
        (".", "run.json"),
    ],
)
def test_missing_results_are_seen_where_newer_ones_hide_them_from_snakemake(clone, gone, named):
    project = clone("bereft", "results", ".snakemake")
    folder = "results/demo/runs/pretrain/sdpa/wikipedia/seed-420"
    path = project.folder / folder / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert project.stale(CONFIG) == {}
    said = why(project)
    assert f"pretrain/sdpa/wikipedia, seed 420\n    missing: {folder}/" in said
    assert f"    missing: {folder}/{named}" in said
    program, *words = shlex.split(said.splitlines()[-1])
    assert program == "snakemake"
    planned = project.snakemake("-n", *words).stdout
    assert re.search(r"^run +3$", planned, re.MULTILINE)  # it, and what starts from it
    assert re.search(r"^table_f1 +1$", planned, re.MULTILINE)

    process = accept(project, "all")
    assert process.returncode == 2
    assert "nothing was accepted" in process.stderr
    assert f"{folder}/{named}" in process.stderr

    process = project.program("status", "--configfile", CONFIG)
    assert process.returncode == 1
    assert re.search(r"^pretrain +2 +0 +0 +0 +1$", process.stdout, re.MULTILINE)


def test_nothing_is_accepted_while_snakemake_is_at_work(changed):
    lock = changed.folder / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.write_text(f"{ADAPTED}/run.json\n")
    try:
        process = accept(changed, f"{ADAPTED}/run.json", config="changed.yaml")
    finally:
        lock.unlink()
    assert process.returncode == 2
    assert "Snakemake is at work" in process.stderr


def test_what_was_accepted_is_up_to_date_and_in_the_record(changed):
    before = read_record(changed.folder / ADAPTED)
    process = accept(changed, f"{ADAPTED}/run.json", "--reason", "it's only a test", config="changed.yaml")
    assert process.returncode == 0, process.stderr
    assert "steps were accepted" in process.stdout
    assert "nothing is stale" in why(changed, f"{ADAPTED}/run.json", config="changed.yaml")
    record = read_record(changed.folder / ADAPTED)
    (entry,) = record.accepted
    assert record.model_copy(update={"accepted": [], "digest": before.digest}) == before
    assert entry.reason == "it's only a test"
    assert entry.settings["recipe.weight_decay"] == (0.01, 0.5)
    assert entry.code is not None
    assert entry.code[0] == record.code != entry.code[1]
    assert "code of lib/attention/lsh/mechanism.py: `BLOCK` changed" in entry.changes


def test_an_entry_makes_nothing_stale_even_where_times_are_lost(clone):
    """Tables read run records, and compare their contents where a record is newer."""
    project = clone("entry", "results", ".snakemake")
    path = project.folder / "lib/attention/favor/mechanism.py"
    path.write_text(path.read_text().replace("functional.elu(rows) + 1", "functional.elu(rows) + 1.0"))
    run = "results/demo/runs/finetune/favor-m64/imdb/seed-420/run.json"
    assert "`" in why(project, run)
    assert accept(project, run).returncode == 0
    assert read_record(project.folder / run.removesuffix("/run.json")).accepted
    os.utime(project.folder / run)
    assert project.stale(CONFIG, target=F1) == {}


def test_what_was_accepted_with_changed_inputs_is_as_recorded(copy_of_repository, alone):
    """Also where a run read the input itself."""
    project = copy_of_repository("corrected")
    raw, prepared = project.folder / "notes.csv", "results/alone/data/imdb/prepared/test.parquet"
    words = ["dull", "bright"]
    raw.write_text(
        "\n".join(["label,text", *(f"{number % 2},a {words[number % 2]} note {number}" for number in range(200))])
    )
    imdb = alone["experiment"]["datasets"]["imdb"] | {
        "source": "local",
        "local": {"files": {"all": ["notes.csv"]}},
        "generated": None,
    }
    values = alone["experiment"] | {"datasets": {"imdb": imdb}, "seeds": [1]}
    project.configure(alone | {"experiment": values})
    project.snakemake("--cores", 1, "--configfile", CONFIG)
    for file in (raw, project.folder / prepared):
        file.write_bytes(file.read_bytes() + b"\n")
        assert f"input {file.relative_to(project.folder)} has changed" in why(project)
        differs = project.program("verify", "--configfile", CONFIG)
        assert (differs.returncode, f"{file.name} has changed since" in differs.stdout) == (1, True)
        assert accept(project, "all").returncode == 0
        assert "nothing is stale" in why(project)
        verified = project.program("verify", "--configfile", CONFIG)
        assert verified.returncode == 0, verified.stdout
    record = read_record(project.folder / "results/alone/runs/score/words/imdb/seed-1")
    assert [list(entry.inputs) for entry in record.accepted] == [[], ["test"]]
    (project.folder / prepared).write_bytes(b"another")
    said = project.program("verify", "--configfile", CONFIG).stdout
    assert "test.parquet has changed since" in said
    assert "input test is not " in said


def test_going_back_to_code_that_results_are_known_to_be_good_for_makes_nothing_stale(clone):
    project = clone("reverted", "results", ".snakemake")
    path = project.folder / "lib/attention/favor/mechanism.py"
    made = path.read_text()
    place = "functional.elu(rows) + 1"
    second, third, fourth = (made.replace(place, f"{place}{more}") for more in (".0", ".00 * 1", " + 0"))
    assert len({made, second, third, fourth}) == 4
    path.write_text(second)
    assert project.stale(CONFIG)["train"] == 3
    assert accept(project, "all", "--reason", "the same sum").returncode == 0
    assert project.stale(CONFIG) == {}

    path.write_text(made)  # what the runs were really made with
    assert project.stale(CONFIG) == {}
    assert "nothing is stale" in why(project)
    assert project.program("verify", "--configfile", CONFIG).returncode == 0

    path.write_text(third)
    assert project.stale(CONFIG)["train"] == 3
    assert accept(project, "all").returncode == 0
    for text in (made, second, third):
        path.write_text(text)
        assert project.stale(CONFIG) == {}
    path.write_text(fourth)
    assert project.stale(CONFIG)["train"] == 3

    path.write_text(made)  # with other settings, nobody has judged the change
    new = project.configure(
        {"extends": CONFIG, "experiment": {"stages": {"tapt": {"recipe": {"weight_decay": 0.5}}}}}, "new.yaml"
    )
    adapted = "results/demo/runs/tapt/favor-m64/imdb/seed-420/run.json"
    assert project.stale(new, target=adapted)["train"] == 1
    assert "weight_decay" in why(project, adapted, config=new)


def test_runs_of_other_versions_than_are_installed_are_named(clone):
    project = clone("versions", "results", ".snakemake")
    run = "results/demo/runs/pretrain/sdpa/wikipedia/seed-420/run.json"
    path = project.folder / run
    values, status = json.loads(path.read_text()), path.stat()
    path.write_text(json.dumps(values | {"versions": values["versions"] | {"torch": "1.9"}}))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    said = why(project, run)
    assert f"torch was 1.9 for 1 of 1 runs, and is {values['versions']['torch']} here" in said
    assert "torch was" not in why(project, "results/demo/runs/pretrain/favor-m64/wikipedia/seed-420/run.json")


IMAGES = """\
import os, sys

if "--version" in sys.argv:
    print("apptainer version 1.3.0")
else:
    program = next(place for place, word in enumerate(sys.argv) if word.endswith(".sif")) + 1
    os.execvp(sys.argv[program], sys.argv[program:])
"""
"""A stand-in that runs programs without an image."""


def test_programs_in_an_image_are_not_stale_for_it(copy_of_repository):
    project = copy_of_repository("image")
    project.configure({"extends": "config/demo.yaml", "execution": {"job": {"container": "grid.sif"}}})
    (project.folder / "grid.sif").touch()
    program = project.folder / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{IMAGES}")
    program.chmod(0o755)
    project.environment["PATH"] = f"{program.parent}{os.pathsep}{project.environment['PATH']}"
    prepared = "results/demo/data/imdb/prepared/train.parquet"
    in_image = ("--sdm", "apptainer", "--cores", 1, "--configfile", CONFIG, "--", prepared)
    project.snakemake(*in_image)
    assert "nothing is stale" in why(project, prepared)
    sources = project.folder / "lib/preparing/labelled.py"
    sources.write_text(sources.read_text().replace('"empty": 0, "short": 0', '"short": 0, "empty": 0'))
    assert "prepare imdb" in why(project, prepared)
    accept(project, prepared)
    assert "Nothing to be done" in project.snakemake("-n", *in_image).stdout


def scrambled(project):
    """Give all results times in any order, as some ways to copy do."""
    files = sorted(path for path in project.results.rglob("*") if path.is_file())
    random.Random(0).shuffle(files)
    for seconds, path in enumerate(files):
        os.utime(path, (1_700_000_000 + seconds, 1_700_000_000 + seconds))


def test_a_fresh_clone_onto_copied_results_plans_nothing(clone):
    project = clone("copied", "results", ".snakemake")
    assert project.stale(CONFIG) == {}
    assert "nothing is stale" in why(project)
    scrambled(project)
    assert project.stale(CONFIG) != {}  # Snakemake cannot compare the contents of folders
    assert accept(project, "all").returncode == 0
    assert project.stale(CONFIG) == {}


def test_a_fresh_clone_onto_linked_results_plans_nothing(clone, finished):
    project = clone("linked")
    for part in ("results", ".snakemake"):
        (project.folder / part).symlink_to(finished.folder / part)
    assert project.stale(CONFIG) == {}


def test_without_snakemakes_metadata_no_change_is_seen_until_the_results_are_accepted(clone):
    project = clone("bare", "results")
    new = project.configure(
        {"extends": CONFIG, "experiment": {"stages": {"tapt": {"recipe": {"weight_decay": 0.5}}}}}, "new.yaml"
    )
    assert project.stale(CONFIG) == project.stale(new) == {}
    assert "finished steps are not in .snakemake/metadata" in why(project)
    assert accept(project, "all").returncode == 0
    assert project.stale(CONFIG) == {}
    assert project.stale(new)["train"] == 3 + 3


def test_the_code_behind_every_digest_is_kept(finished):
    kept = {path.stem for path in (finished.results / "code").glob("*.json")}
    for path in finished.results.glob("runs/**/run.json"):
        assert json.loads(path.read_text())["code"] in kept


def test_why_answers_in_a_folder_without_a_snakefile(repository, tmp_path):
    command = [
        sys.executable,
        str(repository / "scripts/tools/why.py"),
        "results/demo/data/imdb/prepared/train.parquet",
    ]
    command += ["--configfile", str(repository / "config/demo.yaml")]
    command, environment = ready(command, os.environ | {"PYTHONPATH": str(repository)})
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "prepare imdb" in done.stdout
    assert "Traceback" not in done.stderr

import pytest

from lib.workflow import digests


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A small project in which scripts/train.py reaches one mechanism by name and lib/model.py by import."""
    files = {
        "scripts/train.py": '"""Train."""\nfrom lib.room.model import build\n\nbuild()\n',
        "scripts/other.py": "import lib.room.head\n",
        "lib/__init__.py": "",
        "lib/room/__init__.py": "",
        "lib/room/model.py": "import torch\nfrom lib.room import layers\n\ndef build():\n    return layers.WIDTH\n",
        "lib/room/layers.py": "WIDTH = 4\n",
        "lib/room/head.py": "HEAD = 1\n",
        "lib/room/lsh.py": "from lib.room import sorting\nROUNDS = 2\n",
        "lib/room/sorting.py": "STABLE = True\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(digests, "ROOT", tmp_path)
    return tmp_path


def digest(*modules):
    for cache in (digests._tree, digests._imports, digests._module_files, digests._meaning):
        cache.cache_clear()
    return digests.code_digest("scripts/train.py", *modules)


def test_the_closure_is_what_the_script_imports(project):
    digest()
    assert digests.imported_files("scripts/train.py") == [
        "lib/__init__.py",
        "lib/room/__init__.py",
        "lib/room/layers.py",
        "lib/room/model.py",
        "scripts/train.py",
    ]


@pytest.mark.parametrize("file", ["scripts/train.py", "lib/room/layers.py", "lib/room/lsh.py", "lib/room/sorting.py"])
def test_an_edit_of_executed_code_changes_the_digest(project, file):
    before = digest("lib.room.lsh")
    (project / file).write_text((project / file).read_text() + "\nEXTRA = 1\n")
    assert digest("lib.room.lsh") != before


def test_an_edit_elsewhere_does_not(project):
    before = digest()
    for file in ("lib/room/head.py", "lib/room/lsh.py", "scripts/other.py"):
        (project / file).write_text("CHANGED = 1\n")
    assert digest() == before


def test_comments_docstrings_and_formatting_do_not_count(project):
    before = digest()
    (project / "lib/room/layers.py").write_text('"""Layers."""\n\n# why four\nWIDTH   =   4\n"""Heads."""\n')
    (project / "lib/room/model.py").write_text(
        'import torch\nfrom lib.room import layers\ndef build():\n    """Build."""\n    return (layers.WIDTH)\n'
    )
    assert digest() == before


def test_a_default_value_counts(project):
    before = digest()
    (project / "lib/room/model.py").write_text(
        "import torch\nfrom lib.room import layers\n\ndef build(width=1):\n    return layers.WIDTH\n"
    )
    assert digest() != before


@pytest.mark.parametrize(
    ("stage", "leaves_alone"),
    [
        ("pretrain", ["lib/encoder/classification_head.py", "lib/encoder/sequence_classification.py",
                      "lib/core/settings/finetuning.py", "lib/evaluation/metrics.py", "lib/attention/lsh.py",
                      "lib/attention/favor.py", "lib/results/tables.py", "lib/core/settings/study.py",
                      "lib/data/tokenizing.py"]),
        ("tapt", ["lib/encoder/classification_head.py", "lib/attention/sdpa.py", "lib/workflow/plan.py"]),
        ("finetune", ["lib/encoder/masked_lm.py", "lib/encoder/masked_lm_head.py", "lib/attention/lsh.py"]),
    ],
)  # fmt: skip
def test_a_stage_does_not_depend_on_what_it_does_not_run(stage, leaves_alone):
    files = digests.imported_files(f"scripts/{stage}.py")
    assert "lib/encoder/block.py" in files
    assert "lib/training/trainer.py" in files
    for file in leaves_alone:
        assert (digests.ROOT / file).is_file(), f"{file} is gone; mend this test"
        assert file not in files

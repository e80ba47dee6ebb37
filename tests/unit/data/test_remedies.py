"""Remedies of preparation: each one that a message names works on the same documents."""

import re
from contextlib import suppress

import pandas as pd
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.core.errors import DataError
from lib.data.labelled import prepare_dataset
from lib.data.remedies import changed
from lib.data.settings.preparation import Preparation

CITATIONS = {"cited": 240, "followed": 90, "referred": 60, "applied": 50, "considered": 24, "discussed": 16,
             "distinguished": 12, "related": 5, "affirmed": 2}  # fmt: skip


def write(path, sizes, *, named=True, characters=20):
    """Write documents of classes of these sizes, whose labels are names or numbers, in turns."""
    rows = [
        {"text": f"{place} {name} ".ljust(characters, "x"), "label": name if named else number}
        for number, (name, size) in enumerate(sizes.items())
        for place in range(size)
    ]
    pd.DataFrame(sorted(rows, key=lambda row: row["text"])).to_parquet(path)
    return path


def refusal(files, target, preparation):
    """Return the message with which a dataset is refused; None = it was prepared."""
    with suppress(DataError):
        prepare_dataset(files, target, preparation)
        return None
    with pytest.raises(DataError) as error:
        prepare_dataset(files, target, preparation)
    return str(error.value)


def remedies(message):
    """Return the changes of settings that a message names, read as a user would read them."""
    works = re.search(r"this works: (.*)\. Or add documents\.", message)
    found = []
    for choice in works.group(1).split("; or ") if works else []:
        changes = {}
        for line in re.findall(r"`([^`]*)`", choice):
            changes |= yaml.safe_load(line)
        found.append(changes)
    return found


def follow(files, folder, preparation):
    """Return the remedies of a refused dataset, each of which was followed."""
    message = refusal(files, folder / "refused", preparation)
    found = remedies(message) if message else []
    for number, changes in enumerate(found):
        target = folder / f"{number}"
        assert refusal(files, target, changed(preparation, changes)) is None, (message, changes)
    return message, found


@pytest.mark.parametrize("named", [True, False])
def test_rare_classes_have_remedies_that_end_the_trouble(tmp_path, named):
    files = {"all": [write(tmp_path / "citations.parquet", CITATIONS, named=named)]}
    message, found = follow(files, tmp_path, Preparation(labels=[*CITATIONS]))
    assert "affirmed: 2" in message
    assert "expected at least 3 of every class" in message
    (dropped,) = found
    assert dropped["values"]["affirmed" if named else "8"] is None
    assert [*CITATIONS][-1] not in dropped["labels"]


def test_larger_shares_are_named_where_they_suffice(tmp_path):
    sizes = CITATIONS | {"affirmed": 5}
    files = {"all": [write(tmp_path / "citations.parquet", sizes)]}
    message, found = follow(files, tmp_path, Preparation(labels=[*sizes]))
    assert "too few" in message
    assert found[0] == {"split": {"validation": 0.2, "test": 0.2}}


def test_more_documents_than_a_share_gives_need_a_larger_share_or_fewer_documents(tmp_path):
    files = {"all": [write(tmp_path / "all.parquet", {"no": 60, "yes": 40})]}
    wanted = Preparation(labels=["no", "yes"], split={"documents": {"test": 14}})
    message, found = follow(files, tmp_path, wanted)
    assert message.startswith("split.documents.test: asks for 14 documents, but there are 10 (no: 6, yes: 4).")
    assert "min_chars" not in message
    assert found == [{"split": {"test": 0.15}}, {"split": {"documents": {"test": 10}}}]


def test_a_limit_of_characters_is_blamed_only_where_it_is_the_cause(tmp_path):
    short = write(tmp_path / "short.parquet", {"yes": 20}, characters=10)
    long = write(tmp_path / "long.parquet", {"no": 20})
    rows = [pd.read_parquet(file) for file in (long, short)]
    pd.concat(rows).to_parquet(tmp_path / "all.parquet")
    files = {"all": [tmp_path / "all.parquet"]}
    _, found = follow(files, tmp_path, Preparation(labels=["no", "yes"], min_chars=15))
    assert found == [{"min_chars": 0}]
    _, found = follow(files, tmp_path, Preparation(labels=["no", "yes"], max_chars=15))
    assert found == [{"max_chars": None}]


def test_where_nothing_helps_documents_are_asked_for(tmp_path):
    files = {"all": [write(tmp_path / "all.parquet", {"no": 5, "yes": 1})]}
    message, found = follow(files, tmp_path, Preparation(labels=["no", "yes"]))
    assert not found
    assert message.endswith("Add documents.")


@given(
    sizes=st.lists(st.integers(0, 40), min_size=2, max_size=6),
    named=st.booleans(),
    share=st.sampled_from([0.02, 0.1, 0.3]),
    documents=st.dictionaries(st.sampled_from(["train", "validation", "test"]), st.integers(1, 40), max_size=2),
    balance=st.sampled_from([False, 1.0, 2.0]),
    held_out=st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_remedy_works(tmp_path_factory, sizes, named, share, documents, balance, held_out):
    folder = tmp_path_factory.mktemp("remedies")
    names = {f"class {number}": size for number, size in enumerate(sizes)}
    files = {"all": [write(folder / "all.parquet", names | {"class 0": sizes[0] + 1}, named=named)]}
    split = {"validation": share, "test": share, "documents": documents}
    if held_out:
        files["rest"] = [write(folder / "rest.parquet", names | {"class 1": sizes[1] + 1}, named=named)]
        split = {"held_out": "rest", "documents": documents}
    follow(files, folder, Preparation(labels=[*names], split=split, balance=balance))

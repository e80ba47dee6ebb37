"""Kinds are found by the modules of a package, and by nothing else in its folders."""

import shutil

from litter import leave_litter

from lib.core.kinds import _kinds


def test_litter_is_no_kind(repository, tmp_path):
    folders = [shutil.copytree(repository / "lib" / name, tmp_path / name) for name in ("tasks", "attention")]
    before = _kinds(tuple(map(str, folders)))
    assert {"masked_lm", "lsh"} <= set(before)
    leave_litter(tmp_path)
    _kinds.cache_clear()
    assert _kinds(tuple(map(str, folders))) == before

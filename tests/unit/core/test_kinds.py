"""Kinds are found by the modules of a package, and by nothing else in its folders."""

import shutil

from litter import leave_litter

from lib.core.kinds import _kinds


def test_litter_is_no_kind(repository, own_extension):
    folders = [shutil.copytree(repository / "lib" / name, own_extension / name) for name in ("tasks", "attention")]
    packages = tuple(f"{own_extension.name}.{folder.name}" for folder in folders)
    before = _kinds(packages)
    assert {"masked_lm", "lsh"} <= set(before)
    leave_litter(own_extension)
    _kinds.cache_clear()
    assert _kinds(packages) == before

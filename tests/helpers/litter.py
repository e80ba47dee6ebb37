"""What file managers, editors and file systems leave in any folder, and what a user may put there by mistake."""

import os
from pathlib import Path

APPLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        \xff\xfe"
"""Beginning of a file `._name`, in which another system keeps what its own would say of `name`."""


def leave_litter(folder):
    """Leave litter in `folder` and all folders in it, some of it called as a file that is there."""
    for place in [folder, *(path for path in Path(folder).rglob("*") if path.is_dir())]:
        for path in [path for path in Path(place).iterdir() if path.is_file()]:
            path.with_name(f"._{path.name}").write_bytes(APPLE)
            path.with_name(f".{path.name}.swp").write_bytes(APPLE)
            _link("gone", path.with_name(f"link-{path.name}"))
        for name in (".DS_Store", "Thumbs.db", "desktop.ini", ".nfs0000000001"):
            Path(place, name).write_bytes(APPLE)
        Path(os.fsdecode(os.fsencode(place) + b"/caf\xe9.py")).write_bytes(APPLE)
        Path(place, ".Trashes", "checkpoint-99").mkdir(parents=True, exist_ok=True)
        Path(place, "0099-a-file").touch()
        Path(place, "folder.py").mkdir(exist_ok=True)
        if not Path(place, "pipe").exists():
            os.mkfifo(Path(place, "pipe"))
        _link("loop", Path(place, "loop"))


def _link(target, link):
    if not link.is_symlink():
        link.symlink_to(target)

import pytest

from lib.core.errors import ConfigError, DataError
from lib.core.inputs import expand_ranges, resolve_paths


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a-{08..10}-of-11.x", ["a-08-of-11.x", "a-09-of-11.x", "a-10-of-11.x"]),
        ("{9..10}", ["9", "10"]),
        ("{0..1}/{0..1}", ["0/0", "0/1", "1/0", "1/1"]),
        ("{a..b}", ["{a..b}"]),
    ],
)
def test_ranges_are_expanded(pattern, names):
    assert expand_ranges([pattern]) == names
    with pytest.raises(ConfigError, match="runs backwards"):
        expand_ranges(["{3..1}"])


def test_paths_keep_the_order_of_patterns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "z.csv", "odd[1].txt"):
        (tmp_path / name).touch()
    (tmp_path / "folder.txt").mkdir()
    found = resolve_paths(["z.csv", "[ab].txt", "odd[1].txt"])
    assert [path.name for path in found] == ["z.csv", "a.txt", "b.txt", "odd[1].txt"]


def test_file_named_twice_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"a\.txt: named twice"):
        resolve_paths(["*.txt", "a.txt"])
    (tmp_path / "link.txt").symlink_to("a.txt")
    (tmp_path / "folder").mkdir()
    for other in (str(tmp_path / "a.txt"), "./a.txt", "folder/../a.txt", "link.txt"):
        with pytest.raises(DataError, match="named twice. Expected every file once"):
            resolve_paths(["a.txt", other])

"""Settings that the project writes are read back as the same values: the text 1e5 is not the number 100,000."""

import pytest

from lib.core.files import mapping_text, read_mapping

TEXTS = ["1e5", "4e2", "no", "0x1f", "1_000", "~", "12:30", "null", "-.inf", "2024-01-01", "0o17", "<<", "=", ""]
"""Texts that some version of YAML reads as a number, a truth value, a time, nothing or a sign."""

VALUES = {
    "labels": [*TEXTS, "naïve", "a: b", "x" * 200],
    "values": dict.fromkeys(TEXTS) | {"a": 1e5, "b": 1e-5, "c": [True, None, 1000, 0.5]},
}


@pytest.mark.parametrize("width", [80, 110])
def test_settings_are_read_as_they_were_written(tmp_path, width):
    (tmp_path / "settings.yaml").write_text(mapping_text(VALUES, width))
    assert read_mapping(tmp_path / "settings.yaml") == VALUES
    text = mapping_text(VALUES, one_line=True)
    assert "\n" not in text
    assert read_mapping(text) == VALUES

"""WordNet databases of a few words, in the format of wndb(5WN)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

pytest.importorskip("nltk", reason="an optional package of the study")

LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}

WORDS = {
    "noun": [["dog", "domestic_dog", "hound"], ["house", "home"], ["Boston", "Hub_of_the_Universe"], ["dog", "cad"]],
    "verb": [["run", "operate"]],
    "adj": [["glad", "happy"]],
    "adv": [],
}


def write_wordnet(folder: Path, sets: Mapping[str, Sequence[Sequence[str]]] = WORDS) -> Path:
    """Write the database of some sets of synonyms, by part of speech, and return its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, letter in LETTERS.items():
        data, entries = "  1 A licence.\n", defaultdict(list)
        for names in sets[part]:
            offset = len(data.encode())
            for name in names:
                entries[name.lower()].append(f"{offset:08d}")
            words = " ".join(f"{name} 0" for name in names)
            frames = "01 + 02 00 " if part == "verb" else ""
            data += f"{offset:08d} 03 {letter} {len(names):02x} {words} 000 {frames}| what it means\n"
        index = "".join(
            f"{lemma} {letter} {len(offsets)} 0 {len(offsets)} 0 {' '.join(offsets)}\n"
            for lemma, offsets in sorted(entries.items())
        )
        (folder / f"data.{part}").write_text(data)
        (folder / f"index.{part}").write_text(f"  1 A licence.\n{index}")
        (folder / f"{part}.exc").write_text("dogges dog\n" if part == "noun" else "")
    return folder

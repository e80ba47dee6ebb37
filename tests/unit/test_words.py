"""Words that a reader has to decode, whose limits may only fall, and names of tests, which a list of failures shows."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHERE = [
    "benchmarks",
    "lib",
    "scripts",
    "studies",
    "workflow",
    "docs",
    "README.md",
    "CONTRIBUTING.md",
    "config/README.md",
]
SUFFIXES = (".py", ".md", ".smk", ".rst")
LIMITS = {
    "a docstring that is a fragment: say what the field or function is": (
        r'^\s*"""(Of|By|In|As|With|The same|Likewise|So|Those|That of)\b[^"]*"""$',
        0,
    ),
    "beside: write compared with, also, next to": (r"\b_?[Bb]eside\b", 8),
    "told apart, anew, in vain, whoever: write significantly different, again, without effect, the user": (
        r"\b(anew|in vain|there twice|told apart|tells? .{0,12}apart|whoever|whichever|(for|as) ever|of (then|now))\b",
        1,
    ),
    "what is, what a model does: write the noun": (
        r"\b[Ww]hat (attends|trains|reads|stands|else|is|was|a|the|it|they|one|has|can|each)\b",
        189,
    ),
    "of which, to whom: begin the clause with that, where or whose": (
        r"\b(of|in|by|with|from|to|at|for|through|on|behind|into) (which|whom)\b",
        64,
    ),
}
"""By pattern, and what to write instead: how many places there are."""


@pytest.fixture(scope="module")
def texts():
    files = [file for place in WHERE for file in [ROOT / place, *(ROOT / place).rglob("*")]]
    files = [file for file in files if "tests" not in file.relative_to(ROOT).parts]
    texts = [file for file in files if file.is_file() and (file.suffix in SUFFIXES or file.name == "Snakefile")]
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in texts}


@pytest.mark.parametrize("words", LIMITS)
def test_words_to_decode_become_fewer(texts, words):
    pattern, limit = LIMITS[words]
    places = [
        f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group().strip()}"
        for name, text in texts.items()
        for match in re.finditer(pattern, text, re.MULTILINE)
    ]
    assert len(places) <= limit, "\n".join(places)


MOST_OF_NAME = 60


def test_names_of_tests_say_what_and_when():
    """As `test_<what>_<condition>`: no whole sentence, which begins with an article."""
    folders = [ROOT / "tests", *ROOT.glob("studies/*/tests"), ROOT / "benchmarks/tests"]
    files = [file for folder in folders for file in sorted(folder.rglob("test_*.py"))]
    names = [name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.M)]
    assert len(names) > 1000
    wrong = [name for name in names if len(name) > MOST_OF_NAME or re.match("test_(a|an|the|every|what|who|so)_", name)]
    assert wrong == []

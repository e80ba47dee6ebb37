"""Names of users in outputs: each format gets them so that it shows them as they are."""

import html
import re

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]+")
_MARKDOWN = re.compile(
    r"[\\`*|$]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|~(?=~)|(?<=~)~|(?<![^\W_])_|_(?![^\W_])|(?<=\])[(\[:]|!(?=\[)"
)
"""Signs that mean something to Markdown where they stand."""
_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "`": r"\textasciigrave{}",
        # Old encodings of fonts have other signs in their places, and some languages give the last one a meaning.
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': "''",
        "±": r"$\pm$",
    }
)


def one_line(text: object) -> str:
    """Return a text in one line, with spaces in place of characters that no format shows."""
    return _UNPRINTABLE.sub(" ", str(text))


def markdown(text: object) -> str:
    """Return a text as the cell of a table or a part of a line in Markdown."""
    return _MARKDOWN.sub(lambda sign: f"\\{sign.group()}", one_line(text))


def latex(text: object) -> str:
    """Return a text as the cell of a table or a part of a line in LaTeX."""
    escaped = one_line(text).translate(_LATEX).replace("--", "-{}-").replace("--", "-{}-")  # no dash of two hyphens
    # After the end of a row, LaTeX takes these for an option of it.
    return f"{{{escaped[0]}}}{escaped[1:]}" if escaped.startswith(("[", "*")) else escaped


def unquoted(text: str) -> str:
    """Return a text without the backticks of Markdown, where a page or a figure would show them."""
    return text.replace("`", "")


def page(text: object) -> str:
    """Return a text as a part of a page in HTML."""
    return html.escape(one_line(text))

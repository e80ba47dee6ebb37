"""Examples with their words shaded, as a part of a page, from the table of `computation`."""

import html

import pandas as pd

STYLE = (
    ".words {max-width: 60em; line-height: 1.9} .words span {padding: .1em 0; border-radius: .2em} "
    ".words .for {text-decoration: underline solid; text-underline-offset: .25em} "
    ".words .against {text-decoration: underline dotted; text-underline-offset: .25em} "
    ".words .strong {font-weight: bold} "
    "@media print {.words span {-webkit-print-color-adjust: exact; print-color-adjust: exact}} "
    "h2 {font-size: 1.1em; margin-top: 2em} h3 {font-size: 1em; font-weight: normal; color: #444; margin: 1em 0 .2em}"
)
FOR, AGAINST = "0, 114, 178", "230, 159, 0"
"""Blue and orange as red, green and blue: distinct for all kinds of colour vision (Okabe and Ito 2008)."""
DARKEST = 0.45
"""Opacity of the strongest word's shade, on which black text is legible."""
MARKED, STRONG = 0.2, 0.6
"""Shares of the greatest strength from which a word is underlined, and bold: for print without colours."""
MEASURES = {
    "gradient": "gradient times input",
    "words": "occlusion of words",
    "sentences": "occlusion of sentences",
    "tfidf": "weights of TF-IDF",
    "random": "random order",
}
"""What figures and pages call the measures."""


def examples(frame: pd.DataFrame) -> str:
    """Return the documents of part `word` as HTML, once per model and measure; nothing if there are none."""
    words = frame[frame["part"] == "word"]
    if words.empty:
        return ""
    legend = (
        f"<span class='for' style='background: rgba({FOR}, {DARKEST})'>Blue, underlined</span>: speaks for the "
        f"prediction. <span class='against' style='background: rgba({AGAINST}, {DARKEST})'>Orange, dotted</span>: "
        "speaks against it. The darker, the stronger, within a document and a measure; the strongest are bold."
    )
    parts = [f"<style>{STYLE}</style><h2>Examples</h2><p class='words'>{legend}</p>"]
    for name, document in words.groupby("document", sort=False):
        parts.append(f"<h2>{html.escape(str(name))}, labelled {html.escape(str(document['label'].iloc[0]))}</h2>")
        for (model, measure), part in document.groupby(["model", "measure"], sort=False):
            about = (
                f"{model}: {part['prediction'].iloc[0]} ({100 * part['probability'].iloc[0]:.0f} %), "
                f"{MEASURES[measure]}"
            )
            parts.append(f"<h3>{html.escape(about)}</h3><p class='words'>{_shaded(part)}</p>")
    return "\n".join(parts)


def _shaded(words: pd.DataFrame) -> str:
    """Return the words of a document in their order, each with its shade."""
    words = words.sort_values("place")
    greatest = words["value"].abs().max()
    found = []
    for word, value in zip(words["word"], words["value"], strict=True):
        text = html.escape(str(word))
        if pd.isna(value) or not greatest or abs(value) < 0.005 * greatest:
            found.append(text)
            continue
        share = abs(value) / greatest
        classes = ["for" if value > 0 else "against"] if share >= MARKED else []
        classes += ["strong"] if share >= STRONG else []
        named = f" class='{' '.join(classes)}'" if classes else ""
        colour = f"rgba({FOR if value > 0 else AGAINST}, {DARKEST * share:.2f})"
        found.append(f"<span{named} style='background: {colour}' title='{value:+.2f}'>{text}</span>")
    return " ".join(found)

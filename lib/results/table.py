"""A table: numbers, and how they are printed as CSV, Markdown, LaTeX and HTML."""

import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from lib.core.errors import DataError
from lib.core.files import csv_cell, write_text
from lib.results.escapes import latex, markdown, page, unquoted
from lib.results.quantities import shown_decimals, time_unit, times_note

STYLE = Path(__file__).with_suffix(".css")
"""Style of tables only, since the first page of a report embeds them."""


LONG = 24
"""A cell of a page may have several lines from this number of characters on."""


SMALL_P = "0.0000: less than 0.00005."
"""Sentence under tables with p-values, which have 4 decimals."""


@dataclass(frozen=True)
class Column:
    """How a column of numbers is printed."""

    label: str
    decimals: int
    signed: bool = False
    """Whether numbers above zero have a sign as well, as differences do; a number printed as zero has none."""


def interval_columns(confidence: float) -> dict[str, Column]:
    """Return the columns of both ends of an interval, `low` and `high`."""
    return {"low": Column(f"{100 * confidence:g} % interval from", 2), "high": Column("to", 2)}


@dataclass(frozen=True)
class Key:
    """Label of a column that is made of names of the study. The names are joined when the table is printed, not before.

    Joined earlier, stage `a` on `b_c` and stage `a_b` on `c` would be one column.
    """

    parts: tuple[str, ...]
    deviation: bool = False
    """Whether it holds the standard deviation of the column with the same parts."""

    @property
    def sd(self) -> "Key":
        """The label of its standard deviation."""
        return replace(self, deviation=True)

    def __str__(self) -> str:
        return "_".join([*self.parts, *(["sd"] if self.deviation else [])])


@dataclass(frozen=True)
class Table:
    """A table: unrounded numbers, and how they are printed."""

    frame: pd.DataFrame
    """Columns have text as labels, or a `Key`. Those that are not in `columns` are text, or the standard deviation
    (`<column>_sd`, `Key.sd`) of another."""
    columns: Mapping[Any, Column]
    note: str | None = None
    """Sentence under the Markdown table."""
    bold: Mapping[Any, Sequence[bool]] = field(default_factory=dict)
    """Rows that are bold (except in CSV), by column."""
    deviations_over: str = "seeds"
    """What standard deviations are over, as the sentence under the table says."""
    headlines: Sequence[str] = ()
    """Its message, a paragraph each, above it; in LaTeX below, before the note."""

    def __post_init__(self) -> None:
        for names in ([self._label(name) for name in self._shown_columns], list(map(str, self.frame))):
            if len(set(names)) < len(names):
                raise DataError(f"columns: some have the same name: {', '.join(names)}. Expected different names.")

    def write(self, files: Iterable[str | Path]) -> None:
        """Write the table to each of the files atomically, in the format that its suffix names (csv, md, tex, html)."""
        formats = {".csv": self.to_csv, ".md": self.to_markdown, ".tex": self.to_latex, ".html": self.to_html}
        for file in files:
            write_text(file, formats[Path(file).suffix]())

    def to_csv(self) -> str:
        """Return the table as CSV, with all decimals of times, and a standard deviation in a column of its own."""
        formats = {name: self._mean_of(name) if self._is_deviation(name) else name for name in self.frame}
        text = {str(name): self._printed(name, format_of, missing="") for name, format_of in formats.items()}
        return pd.DataFrame(text).map(csv_cell).rename(columns=csv_cell).to_csv(index=False, lineterminator="\n")

    def to_markdown(self) -> str:
        """Return the table as Markdown, a standard deviation behind its mean."""
        shown = self._shown().map(markdown).rename(columns=markdown)
        alignment = self._alignment("left", "right")
        lines = self._with_bold(shown, "**{}**").to_markdown(index=False, disable_numparse=True, colalign=alignment)
        above = "".join(f"{_escaped(each)}\n\n" for each in self.headlines)
        return f"{above}{lines}\n" + (f"\n{_escaped(note)}\n" if (note := self._footnote) else "")

    def to_latex(self) -> str:
        """Return the table as LaTeX, for the package booktabs, with its note below."""
        escaped = self._shown().map(latex).rename(columns=latex)
        alignment = "".join(self._alignment("l", "r"))
        lines = self._with_bold(escaped, r"\textbf{{{}}}").to_latex(index=False, column_format=alignment)
        note = " ".join(filter(None, [*self.headlines, self._footnote]))
        return lines + (f"\n\\par {latex(unquoted(note))}\n" if note else "")

    def to_html(self) -> str:
        """Return the table as a page of its own, which the report shows."""
        escaped = self._shown().map(_cell).rename(columns=page)
        styles = [f"text-align: {alignment}" for alignment in self._alignment("left", "right")]
        # Named by its content: the same table gives the same bytes, and tables of one page do not share styles.
        name = f"{zlib.crc32(self.to_csv().encode()):08x}"
        styled = Styler(self._with_bold(escaped, "<b>{}</b>"), uuid=name, cell_ids=False).hide(axis="index")
        lines = styled.apply(lambda _: styles, axis=1).apply_index(lambda _: styles, axis="columns").to_html()
        below = f"<p>{page(unquoted(note))}</p>" if (note := self._footnote) else ""
        style = f"<meta charset='utf-8'>\n<style>{' '.join(STYLE.read_text(encoding='utf-8').split())}</style>"
        above = "".join(f"<p class='headline'>{page(each)}</p>\n" for each in self.headlines)
        return f"<!DOCTYPE html>\n{style}\n{above}<div class='table'>\n{lines}{below}\n</div>\n"

    @property
    def _footnote(self) -> str:
        """The note, and what times, and a number behind ±, are if there are any."""
        times = times_note(column.label for name, column in self.columns.items() if name in self.frame)
        deviates = any(self._is_deviation(name) and self.frame[name].notna().any() for name in self.frame)
        spread = f"±: standard deviation over {self.deviations_over}." * deviates
        return " ".join(filter(None, [self.note, times, spread]))

    def _shown(self) -> pd.DataFrame:
        """Return the text of every cell, under what its column is called."""
        table, text = self._in_readable_units(), {}
        for name in table._shown_columns:
            cells = table._printed(name, name, missing="-", read=True)
            spread = _deviation_of(name)
            if spread in table.frame and table._is_deviation(spread):
                deviations = table._printed(spread, name, missing="", read=True)
                cells = [f"{cell} ± {sd}" if sd else cell for cell, sd in zip(cells, deviations, strict=True)]
            text[table._label(name)] = cells
        return pd.DataFrame(text)

    def _in_readable_units(self) -> "Table":
        """Return the table with minutes as seconds, in columns where all are below one; CSV files keep their unit."""
        frame, columns = self.frame.copy(), dict(self.columns)
        for name in [name for name, column in columns.items() if "[min" in column.label and name in frame]:
            unit, factor = time_unit(frame[name].abs().max())
            for each in [each for each in (name, _deviation_of(name)) if each in frame]:
                frame[each] = factor * frame[each]
            columns[name] = replace(columns[name], label=columns[name].label.replace("[min", f"[{unit}"))
        return replace(self, frame=frame, columns=columns)

    def _label(self, name: Hashable) -> str:
        return self.columns[name].label if name in self.columns else str(name).replace("_", " ")

    def _with_bold(self, shown: pd.DataFrame, form: str) -> pd.DataFrame:
        for place, name in enumerate(self._shown_columns):
            cells = zip(shown.iloc[:, place], self.bold.get(name, [False] * len(shown)), strict=True)
            shown.isetitem(place, [form.format(cell) if marked else cell for cell, marked in cells])
        return shown

    def _alignment(self, text: str, number: str) -> list[str]:
        return [number if name in self.columns else text for name in self._shown_columns]

    @property
    def _shown_columns(self) -> list[Any]:
        """The labels of the columns that people read, deviations being part of them."""
        return [name for name in self.frame if not self._is_deviation(name)]

    def _is_deviation(self, name: Hashable) -> bool:
        return name not in self.columns and self._mean_of(name) in self.columns

    def _mean_of(self, name: Hashable) -> Hashable:
        """Return the label of the column whose standard deviation a column with this label would be."""
        return replace(name, deviation=False) if isinstance(name, Key) else str(name).removesuffix("_sd")

    def _printed(self, name: Hashable, format_of: Hashable, missing: str, read: bool = False) -> list[str]:
        if format_of not in self.columns:
            return [missing if pd.isna(value) else value for value in self.frame[name]]
        column = self.columns[format_of]
        signed = column.signed and name == format_of
        label = column.label if read else ""
        return [
            missing if pd.isna(value) else number(value, shown_decimals(label, column.decimals, value), signed)
            for value in self.frame[name]
        ]


def _deviation_of(name: Hashable) -> Hashable:
    """Return the label of the standard deviation of a column."""
    return name.sd if isinstance(name, Key) else f"{name}_sd"


def number(value: float, decimals: int, signed: bool = False) -> str:
    """Return a number as tables print it: `signed` puts a sign before those above zero, too."""
    printed = f"{value:{'+' if signed else ''}z.{decimals}f}"
    return printed if float(printed) else printed.removeprefix("+")


def _cell(text: object) -> str:
    """Return a text as a cell of a page, which breaks long ones into lines."""
    return page(text) if len(str(text)) < LONG else f"<span class='long' dir='auto'>{page(text)}</span>"


def _escaped(note: str) -> str:
    """Return a note as Markdown shows it: as it is, but for the names that it has between backticks."""
    return "`".join(part if place % 2 else markdown(part) for place, part in enumerate(note.split("`")))

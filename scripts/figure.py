"""Draw one figure of a study, from the records of finished runs.

python scripts/figure.py --figure JSON --records FILE ... --out FILE ...

JSON has the figure's `settings`, as in `report.figures`, and its `scope`: the fields of `lib.results.scope.Scope`
except its files. Files are .svg, .png or .pdf.
"""

from lib.core import program
from lib.results.settings import FIGURES


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.results.predictions import scores_note
    from lib.results.records import conditions_note, copies_note, shared_note
    from lib.results.scope import result_arguments
    from lib.results.style import save_figure

    arguments = result_arguments(FIGURES, "figure", __doc__, argv)
    figure = arguments.settings.draw(arguments.scope)
    of_scores = [scores_note, shared_note, copies_note] if arguments.settings.shows_test_scores else []
    of_records = (note(arguments.records) for note in (*of_scores, conditions_note))
    notes = [*arguments.settings.notes(arguments.scope), arguments.scope.note, *of_records]
    save_figure(figure, arguments.out, " ".join(filter(None, notes)))


if __name__ == "__main__":
    program.start(main)

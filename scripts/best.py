"""Choose the best settings of a search on one dataset: the highest mean macro-F1 on validation, over its seeds.

python scripts/best.py --scope JSON --records FILE ... --out FILE

JSON has the fields of `lib.results.scope.Scope` except its files. Writes the settings by dotted name, as JSON;
`scripts/train.py --settings-from` applies them to a run.
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.core.files import write_json
    from lib.results.scope import scope
    from lib.results.variants import best_settings

    parser = program.parser(__doc__)
    parser.add_argument("--scope", required=True, type=program.json_value, metavar="JSON", help="what was searched")
    parser.add_argument("--records", required=True, nargs="+", metavar="FILE", help="run.json of each run")
    parser.add_argument("--out", required=True, metavar="FILE", help="JSON file to write")
    arguments = parser.parse_args(argv)
    write_json(arguments.out, best_settings(scope(arguments.scope, arguments.records)))


if __name__ == "__main__":
    program.start(main)

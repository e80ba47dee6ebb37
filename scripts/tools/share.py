"""Copy the model of a finished run to a new folder with a model card, ready to publish.

python scripts/tools/share.py --run finetune/favor-m64/imdb/seed-420 --out favor-imdb --license apache-2.0 --language en
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.study_parser(__doc__)
    parser.add_argument("--run", required=True, metavar="PLACE", help="<stage>/<model>/<dataset>/seed-<n>")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the new folder")
    parser.add_argument("--license", metavar="NAME", help="license of the weights, as on the hub, such as apache-2.0")
    parser.add_argument("--language", nargs="+", default=[], metavar="CODE", help="languages of the texts, such as en")
    arguments = parser.parse_args(argv)
    from lib.study.configuration import load_study, read_layers
    from lib.workflow.commands.sharing import share
    from lib.workflow.planning.plan import Plan

    plan = Plan(load_study(read_layers(arguments.configfile)))
    files = share(plan, arguments.run, arguments.out, arguments.license, arguments.language)
    print(f"{arguments.out}: {', '.join(files)}")


if __name__ == "__main__":
    program.start(main)

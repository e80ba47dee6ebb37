"""Generate a corpus.

Out: a folder with the raw files that `lib.preparing.generators` lists.
"""

from lib.core import program
from lib.preparing.generators import generators


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.preparing.generating import generate

    parser = program.parser(__doc__)
    parser.add_argument("--corpus", required=True, help="name of the corpus, which its seed is derived from")
    parser.add_argument("--generator", choices=generators(), help="which generator; default: that of the corpus' name")
    parser.add_argument("--documents", required=True, type=int, help="documents to generate")
    parser.add_argument("--seed", type=int, default=0, help="seed of the generator")
    parser.add_argument("--options", type=program.json_value, default={}, metavar="JSON", help="of the generator")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to make")
    given = parser.parse_args(argv)
    generate(given.corpus, given.documents, given.seed, given.out, given.generator, given.options)


if __name__ == "__main__":
    program.start(main)

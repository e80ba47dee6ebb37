"""Make the folder of a tokeniser: from an existing vocabulary or tokeniser, or by training one on prepared texts.

In, by the settings of the tokeniser: a vocab.txt, a folder with a published tokeniser, or Parquet files with a column
`text` (none for bytes). Out: a folder with tokenizer.json, tokenizer_config.json and, for WordPiece,
vocab.txt.
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.preparing.settings.tokenizer import Tokenizer
    from lib.tokens.tokenizing import make_tokenizer

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="of the tokeniser: path of a YAML file, or JSON in place")
    parser.add_argument("--sources", nargs="*", default=[], metavar="PATH", help="what it is made from")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to make")
    arguments = parser.parse_args(argv)
    make_tokenizer(program.read_settings(Tokenizer, arguments.settings), arguments.sources, arguments.out)


if __name__ == "__main__":
    program.start(main)

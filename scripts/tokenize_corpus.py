"""Tokenise a corpus without labels: short and long articles for training, and the next articles for validation.

In: prepared Parquet shards in dataset order, the tokeniser's folder. Out: the folders `train` and
`validation`, and the statistics of their lengths.
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.preparing.settings.corpus import Slice
    from lib.tokens.tokenizer import TextTokenizer
    from lib.tokens.tokenizing import tokenize_corpus

    parser = program.parser(__doc__)
    parser.add_argument("--shards", required=True, nargs="+", metavar="FILE", help="Parquet files, in dataset order")
    parser.add_argument("--tokenizer", required=True, metavar="FOLDER", help="the tokeniser's folder")
    parser.add_argument("--slices", required=True, type=program.json_value, metavar="JSON", help="settings of slices")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder of the splits' folders")
    parser.add_argument("--lengths", required=True, metavar="FILE", help="JSON file of the statistics")
    arguments = parser.parse_args(argv)
    slices = {name: Slice.model_validate(values) for name, values in arguments.slices.items()}
    tokenizer = TextTokenizer.load(arguments.tokenizer)
    tokenize_corpus(arguments.shards, tokenizer, **slices, folder=arguments.out, lengths=arguments.lengths)


if __name__ == "__main__":
    program.start(main)

"""Tokenise the splits of a labelled dataset.

In: prepared Parquet files (id, text, label, perhaps text_pair), the tokeniser's folder. Out: the folders `train`,
`validation` and `test`, and the statistics of their lengths.
"""

from lib.core import program

SPLITS = ("train", "validation", "test")


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.tokens.tokenizer import TextTokenizer
    from lib.tokens.tokenizing import tokenize_dataset

    parser = program.parser(__doc__)
    for split in SPLITS:
        parser.add_argument(f"--{split}", required=True, metavar="FILE", help=f"prepared documents of {split}")
    parser.add_argument("--tokenizer", required=True, metavar="FOLDER", help="the tokeniser's folder")
    parser.add_argument("--max-tokens", required=True, type=int, help="tokens that a document is cut to")
    parser.add_argument("--window-stride", default=0.5, type=float, help="of the windows of documents with spans")
    parser.add_argument("--pairs", default="together", help="whether pairs become one sequence, or two: separately")
    parser.add_argument("--out", dest="folder", required=True, metavar="FOLDER", help="folder of the splits' folders")
    parser.add_argument("--lengths", required=True, metavar="FILE", help="JSON file of the statistics")
    arguments = vars(parser.parse_args(argv))
    splits = {split: arguments.pop(split) for split in SPLITS}
    tokenizer, pairs = TextTokenizer.load(arguments.pop("tokenizer")), arguments.pop("pairs")
    tokenize_dataset(splits, tokenizer, separately=pairs == "separately", **arguments)


if __name__ == "__main__":
    program.start(main)

"""Make the vectors of the documents of a dataset by an encoder that does not train.

In: prepared Parquet files (id, text, ...), folders of the encoder's weights and of its tokeniser. Out: a folder with
the encoder and the vectors. A stopped call goes on where it was.
"""

from pathlib import Path

from lib.core import program

SPLITS = ("train", "validation", "test")


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.core.files import read_mapping
    from lib.core.weights import EncoderSettings
    from lib.training.encoding import make_vectors

    parser = program.parser(__doc__)
    for split in SPLITS:
        parser.add_argument(f"--{split}", required=True, type=Path, metavar="FILE", help=f"documents of {split}")
    parser.add_argument("--name", required=True, help="name of the encoder in the study")
    parser.add_argument("--settings", required=True, help="how it reads: a path, or JSON")
    parser.add_argument("--weights", required=True, type=Path, metavar="FOLDER", help="configuration and weights")
    parser.add_argument("--tokenizer", required=True, type=Path, metavar="FOLDER", help="its tokeniser")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--work", required=True, type=Path, metavar="FOLDER", help="for vectors of a stopped call")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder to appear")
    arguments = vars(parser.parse_args(argv))
    arguments["settings"] = program.read_settings(EncoderSettings, read_mapping(arguments["settings"]))
    make_vectors(splits={split: arguments.pop(split) for split in SPLITS}, **arguments)


if __name__ == "__main__":
    program.start(main)

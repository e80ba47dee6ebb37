"""Make the folder of word vectors: by training them on prepared texts, or from a file of vectors.

In: Parquet files with a column `text`, or one file of vectors, depending on the settings. Out: a folder with
vectors.safetensors and words.json.
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.core.files import atomic_path
    from lib.preparing.settings.word_vectors import WordVectors
    from lib.tokens.tokenizing import StoredTexts
    from studies.word_vectors.storage import save_vectors
    from studies.word_vectors.word_vectors import read_vectors, train_vectors

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="an entry of `word_vectors`: path of a YAML file, or JSON")
    parser.add_argument("--source", required=True, nargs="+", metavar="FILE", help="texts, or the file of vectors")
    parser.add_argument("--seed", type=int, default=0, help="of the runs that take trained vectors")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to make")
    arguments = parser.parse_args(argv)
    settings = program.read_settings(WordVectors, arguments.settings)
    if settings.source == "local":
        vectors = read_vectors(arguments.source[0], settings)
    else:
        vectors = train_vectors(StoredTexts(arguments.source), settings, arguments.seed)
    with atomic_path(arguments.out) as partial:
        save_vectors(vectors, partial)


if __name__ == "__main__":
    program.start(main)

"""Filter one raw file of the corpus: keep the articles with enough keywords.

In: a raw file (Parquet, CSV, JSONL, text). Out: a prepared Parquet part with `id`, `text` and an empty `label`.
Settings: `text`, `id`, `keywords` and `min_keywords` of the corpus.
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Parse the options and filter the file."""
    from lib.preparing.filtering import filter_corpus
    from lib.preparing.settings.corpus import ArticleFilter

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="path of a YAML file, or JSON in place")
    parser.add_argument("--source", required=True, help="raw file")
    parser.add_argument("--part", default="train", help="prefix of the ids where the file has none, e.g. train-00003")
    parser.add_argument("--out", required=True, help="Parquet file to appear")
    options = parser.parse_args(argv)
    filter_corpus(options.source, options.out, program.read_settings(ArticleFilter, options.settings), options.part)


if __name__ == "__main__":
    program.start(main)

"""Make the folder of a tokeniser: from an existing vocabulary or tokeniser, or by training one on prepared texts.

In: its settings, and a vocab.txt, a folder with a published tokeniser, or Parquet files with a column `text` to train
on; nothing for bytes. Out: a folder with tokenizer.json, tokenizer_config.json and, for WordPiece, vocab.txt.
"""

import sys
from collections.abc import Sequence

from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    from lib.core.files import atomic_path
    from lib.preparing.settings.tokenizer import Tokenizer
    from lib.tokens.cutting import note_cut
    from lib.tokens.tokenizing import StoredTexts, train_tokenizer
    from lib.tokens.vocabularies import add_sentinels, from_published, from_vocabulary

    parser = program.parser(__doc__)
    parser.add_argument("--settings", required=True, help="of `tokenizers` in a study: a YAML file, or JSON in place")
    parser.add_argument("--sources", nargs="*", default=[], metavar="FILE", help="what it is made from")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to make")
    arguments = parser.parse_args(argv)
    settings = program.read_settings(Tokenizer, arguments.settings)
    with atomic_path(arguments.out) as partial:
        if settings.algorithm == "published":
            from_published(arguments.sources[0], partial, settings.mask_token)
        elif settings.source in ("hub", "local"):
            from_vocabulary(arguments.sources[0], partial, settings.lowercase, settings.strip_accents, settings.enclose)
        else:
            train_tokenizer(StoredTexts(arguments.sources), settings, partial)
        if settings.sentinels:
            add_sentinels(partial, settings.sentinels)
        note_cut(partial, settings.cut)


if __name__ == "__main__":
    sys.exit(program.run(main))

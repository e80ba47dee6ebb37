"""Make the folder of a tokeniser: from an existing vocabulary or tokeniser, or by training one on prepared texts.

In: a vocab.txt (--vocabulary), a folder with a published tokeniser (--published), or Parquet files with a column `text`
(--texts; none for bytes). Out: a folder with tokenizer.json, tokenizer_config.json and, for WordPiece, vocab.txt.
"""

import argparse
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
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--vocabulary", metavar="FILE", help="vocab.txt, one token per line")
    source.add_argument(
        "--published",
        metavar="FOLDER",
        help="folder with a tokenizer.json, a vocab.txt, or a vocab.json and a merges.txt",
    )
    source.add_argument("--texts", nargs="*", metavar="FILE", help="Parquet files to train on; none for bytes")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to make")
    fields = Tokenizer.model_fields
    parser.add_argument(
        "--algorithm",
        choices=["wordpiece", "words", "bpe", "bytes"],
        default=fields["algorithm"].default,
        help=fields["algorithm"].description,
    )
    parser.add_argument("--mask-token", metavar="TOKEN", help=fields["mask_token"].description)
    parser.add_argument(
        "--cut", choices=["head", "head_tail"], default=fields["cut"].default, help=fields["cut"].description
    )
    for name in ("vocab_size", "min_frequency", "sentinels"):
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=int, default=fields[name].default, help=fields[name].description)
    for name in ("lowercase", "strip_accents", "enclose"):
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            action=argparse.BooleanOptionalAction,
            default=fields[name].default,
            help=fields[name].description,
        )
    arguments = parser.parse_args(argv)
    with atomic_path(arguments.out) as partial:
        if arguments.published:
            from_published(arguments.published, partial, arguments.mask_token)
        else:
            values = {name: value for name, value in vars(arguments).items() if name in fields}
            made = None if arguments.algorithm == "bytes" else "trained"
            values |= {"source": "local" if arguments.vocabulary else made, "path": arguments.vocabulary}
            settings = program.read_settings(Tokenizer, values)
            if settings.path is None:
                train_tokenizer(StoredTexts(arguments.texts), settings, partial)
            else:
                from_vocabulary(settings.path, partial, settings.lowercase, settings.strip_accents, settings.enclose)
        if arguments.sentinels:
            add_sentinels(partial, arguments.sentinels)
        note_cut(partial, arguments.cut)


if __name__ == "__main__":
    sys.exit(program.run(main))

"""Write a tokenised split as one padded `TensorDataset`, in the layout of the study's .pt files.

In: the folder of a tokenised split, the tokeniser's folder. Out: a .pt file for `torch.load`, after
`torch.serialization.add_safe_globals([TensorDataset])`, with the ids, a mask that is true at padding (transformers'
`attention_mask` is the opposite) and the labels, if any.
"""

import sys
from collections.abc import Sequence

from lib.core import program
from lib.data.tokenizer import TextTokenizer
from lib.data.tokenizing import export_tensors


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--tokens", required=True, metavar="FOLDER", help="folder of a tokenised split")
    parser.add_argument("--tokenizer", required=True, metavar="FOLDER", help="the tokeniser's folder")
    parser.add_argument("--max-tokens", required=True, type=int, help="length of every row")
    parser.add_argument("--out", required=True, metavar="FILE", help=".pt file to make")
    arguments = parser.parse_args(argv)
    tokenizer = TextTokenizer.load(arguments.tokenizer)
    export_tensors(arguments.tokens, arguments.out, arguments.max_tokens, tokenizer)


if __name__ == "__main__":
    sys.exit(program.run(main))

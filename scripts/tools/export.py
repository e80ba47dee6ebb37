"""Write a trained model for transformers, sentence-transformers or ONNX, which read it without this project.

python scripts/tools/export.py --model results/runs/finetune/bert/imdb/seed-1/model --out bert-imdb
python scripts/tools/export.py --model results/runs/finetune/bert/imdb/seed-1/model --out bert-imdb-onnx --onnx
"""

from pathlib import Path

from lib.core import program
from lib.workflow.commands.exporting import export, export_onnx


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.parser(__doc__)
    parser.add_argument("--model", required=True, metavar="FOLDER", help="model folder of a run")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="the new folder")
    parser.add_argument("--encoder", action="store_true", help="without the head and the adapters")
    parser.add_argument("--base", metavar="NAME", help="model that the adapters belong to, as others find it")
    parser.add_argument("--onnx", action="store_true", help="a classifier of documents in fp32 and in 8 bits, as ONNX")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="with --onnx: one document per line to measure on")
    arguments = parser.parse_args(argv)
    model, out = Path(arguments.model), Path(arguments.out)
    if arguments.onnx:
        files = export_onnx(model, out, arguments.texts)
    else:
        files = export(model, out, encoder=arguments.encoder, base=arguments.base)
    print(f"{arguments.out}: {', '.join(files)}")


if __name__ == "__main__":
    program.start(main)

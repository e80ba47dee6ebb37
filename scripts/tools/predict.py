"""Predict classes, numbers, labels of words or spans of documents with a model of any study.

python scripts/tools/predict.py --model results/runs/finetune/.../model --input texts.txt --out labels.csv
python scripts/tools/predict.py --model results/runs/finetune/.../model --input table.csv --column review
python scripts/tools/predict.py --model results/runs/score/tfidf/.../model --input new.csv --abstain 0.02 --passages 3
python scripts/tools/predict.py --model results/runs/rte/.../model --input pairs.csv --column text1 --pair-column text2
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.parser(__doc__)
    parser.add_argument("--model", required=True, metavar="FOLDER", help="model folder of a run")
    parser.add_argument("--input", dest="source", required=True, metavar="FILE", help="text, CSV, JSONL or Parquet")
    parser.add_argument("--column", help="column of the text; default: that of the study if it is there, else text")
    parser.add_argument("--pair-column", metavar="COLUMN", help="column of the second text, if documents are pairs")
    parser.add_argument("--id", metavar="COLUMN", help="column of the ids to write; default: documents are numbered")
    parser.add_argument("--dialect", metavar="{KEY: VALUE}", help="how text files are written, as in a study")
    parser.add_argument(
        "--out",
        dest="target",
        type=program.file_to_write,
        default="predictions.csv",
        metavar="FILE",
        help="CSV; - = shown",
    )
    parser.add_argument("--calibrated", action="store_true", help="probabilities at the temperature of validation")
    parser.add_argument(
        "--thresholds", default="{}", metavar="{CLASS: AIM}", help="f1, {precision: 0.9} or {recall: 0.9}"
    )
    parser.add_argument("--abstain", metavar="SHARE", help="of wrong decisions; the rest is left to a person")
    parser.add_argument("--certainty", metavar="SHARE", help="of keeping it; default 0.9, 0 = on validation alone")
    parser.add_argument("--passages", type=program.positive, default=0, help="that decided, for each document")
    parser.add_argument("--max-tokens", type=program.positive, help="to cut documents to; default as in the run")
    parser.add_argument(
        "--batch-size", type=program.positive, help="documents of full length at once; default as in the run"
    )
    parser.add_argument("--device", help="cpu, cuda, ...; default a GPU if there is one")
    arguments = vars(parser.parse_args(argv))
    from lib.core.files import read_value
    from lib.predicting.decisions import Wanted
    from lib.predicting.predict import predict
    from lib.preparing.settings.sources import Dialect

    if (dialect := arguments["dialect"]) is not None:
        arguments["dialect"] = program.read_settings(Dialect, dialect)
    names = ("calibrated", "thresholds", "abstain", "certainty")
    given = {name: value for name in names if (value := arguments.pop(name)) is not None}
    texts = {name: read_value(value, f"--{name}") for name, value in given.items() if isinstance(value, str)}
    predict(**arguments, wanted=program.read_settings(Wanted, given | texts))


if __name__ == "__main__":
    program.start(main)

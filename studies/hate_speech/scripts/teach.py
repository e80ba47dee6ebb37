"""Compute a teacher's scores of the training documents of a student.

python studies/hate_speech/scripts/teach.py
    --config FILE --model FOLDER --tokenizer FOLDER --documents FOLDER --tokens FOLDER --out FOLDER

FILE is the `config.yaml` of the teacher's run. Writes a tokenised split: the student's, --tokens, with the teacher's
scores of each document.
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.core.files import read_mapping
    from lib.study.run import RunSettings
    from studies.hate_speech.teaching import teach

    parser = program.parser(__doc__)
    parser.add_argument("--config", required=True, metavar="FILE", help="settings of the teacher's run")
    parser.add_argument("--model", required=True, metavar="FOLDER", help="its model")
    parser.add_argument("--tokenizer", required=True, metavar="FOLDER", help="its tokeniser")
    parser.add_argument("--documents", required=True, metavar="FOLDER", help="training documents as it reads them")
    parser.add_argument("--tokens", required=True, metavar="FOLDER", help="the same as the student reads them")
    parser.add_argument("--execution", help="in place of `execution` of the config: a path, or JSON")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to appear")
    options = parser.parse_args(argv)
    settings = read_mapping(options.config) | {"tokenizer": options.tokenizer}
    settings["data"] |= {"train": options.documents}
    if options.execution:
        settings["execution"] = read_mapping(options.execution)
    teach(program.read_settings(RunSettings, settings), options.model, options.tokens, options.out)


if __name__ == "__main__":
    program.start(main)

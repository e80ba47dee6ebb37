"""Which heads of a published encoder point from a word to the word that it belongs to: the analysis `relations`.

python scripts/tools/relations.py --model FOLDER --out FOLDER

`--model` is a local folder as the hub has it, with a fast tokeniser and weights in safetensors. Writes relations.csv,
.md, .svg and .png. For models of a study, write the analysis `relations` into its configuration.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from lib.core import program


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    import transformers
    from datasets import Dataset

    from lib.analysis.relations import computation, figure
    from lib.analysis.relations.parameters import Parameters
    from lib.analysis.subject import Subject
    from lib.core.files import write_text
    from lib.results.style import save_figure

    parser = program.parser(__doc__)
    parser.add_argument("--model", required=True, metavar="FOLDER", help="folder of the model")
    parser.add_argument(
        "--sentences", type=int, default=Parameters.model_fields["sentences"].default, help="generated (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of sentences and of drawn weights (%(default)s)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to write to")
    arguments = parser.parse_args(argv)
    transformers.set_seed(arguments.seed)
    safely = {"trust_remote_code": False, "local_files_only": True}
    trained = transformers.AutoModel.from_pretrained(
        arguments.model, attn_implementation="eager", use_safetensors=True, **safely
    )
    subject = Subject(
        name=Path(arguments.model).resolve().name,
        dataset="",
        seed=arguments.seed,
        tokenizer=transformers.AutoTokenizer.from_pretrained(arguments.model, **safely),
        tokens=Dataset.from_dict({}),
        drawn=transformers.AutoModel.from_config(trained.config, attn_implementation="eager"),
        load_trained=lambda model: model.load_state_dict(trained.state_dict()),
    )
    frame = computation.analyse(subject, sentences=arguments.sentences)
    frame.insert(0, "model", subject.name)
    out = Path(arguments.out)
    write_text(out / "relations.csv", frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    figure.summarise(frame).write([out / "relations.md"])
    families = {subject.name: trained.config.model_type}
    save_figure(figure.draw(frame, families), [out / f"relations.{suffix}" for suffix in ("svg", "png")])


if __name__ == "__main__":
    sys.exit(program.run(main))

"""Find heads of a published encoder that point from a word to a syntactically related one: the analysis `relations`.

python studies/published/scripts/relations.py --model FOLDER --out FOLDER

`--model` is a local copy of a hub model, with a fast tokeniser and weights in safetensors. Writes relations.csv,
.md, .svg and .png. For models of a study, add the analysis `relations` to its configuration.
"""

from pathlib import Path
from typing import Any

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    import transformers
    from datasets import Dataset

    from lib.analysis.computations.subject import Subject
    from lib.backbones.pretrained.families import FAMILIES
    from lib.backbones.stored import open_config, open_model
    from lib.core.errors import DataError
    from lib.core.files import write_text
    from lib.results.style import save_figure
    from studies.published.analysis.computations.relations import analyse
    from studies.published.analysis.relations import Settings, draw, summarise

    parser = program.parser(__doc__)
    parser.add_argument("--model", required=True, metavar="FOLDER", help="folder of the model")
    parser.add_argument(
        "--sentences", type=int, default=Settings.model_fields["sentences"].default, help="generated (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of sentences and random weights (%(default)s)")
    parser.add_argument("--out", required=True, metavar="FOLDER", help="folder to write to")
    arguments = parser.parse_args(argv)
    transformers.set_seed(arguments.seed)
    folder = Path(arguments.model)
    if not (folder / "tokenizer.json").is_file():
        raise DataError(f"{folder}: no tokenizer.json. Expected the model's fast tokeniser; download it, too.")
    family = FAMILIES.get(open_config(folder).model_type)
    options: dict[str, Any] = dict(family.options) if family else {}  # without a pooler, which no head needs
    trained = open_model(transformers.AutoModel, folder, attn_implementation="eager", use_safetensors=True, **options)
    subject = Subject(
        name=folder.resolve().name,
        dataset="",
        seed=arguments.seed,
        tokenizer=transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True),
        tokens=Dataset.from_dict({}),
        drawn=transformers.AutoModel.from_config(trained.config, attn_implementation="eager"),
        load_trained=lambda model: model.load_state_dict(trained.state_dict(), strict=False),
    )
    frame = analyse(subject, sentences=arguments.sentences)
    frame.insert(0, "model", subject.name)
    out = Path(arguments.out)
    write_text(out / "relations.csv", frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    summarise(frame).write([out / "relations.md"])
    families = {subject.name: trained.config.model_type}
    save_figure(draw(frame, families), [out / f"relations.{suffix}" for suffix in ("svg", "png")])


if __name__ == "__main__":
    program.start(main)

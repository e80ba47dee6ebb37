"""Train a T5 that starts from single parts of a pretrained one, and measure whether its decoder uses the encoder.

python studies/hate_speech/scripts/t5_parts.py --pretrained RUN --finetuned RUN --out FOLDER

RUN is the folder of a finished run: the first of span corruption, the second of text_to_text. Settings and data are
those of the second. The parts in TAKEN start from the pretrained weights, the other weights are random. Writes
parts.csv, and one run per choice and seed; existing runs are kept.

Columns of parts.csv, all but the test's F1 measured on validation:
loss              per written token
loss_other        the same, if the decoder gets the encoder's states of another text
common_states     share of the energy of the encoder's states that is in their mean over all tokens of all texts
common_attention  the same share of the output of the decoder's last cross-attention, for the first written token
A decoder that ignores the encoder has equal losses and a last share of 1.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lib.core import program

if TYPE_CHECKING:
    from lib.study.run import RunSettings

TAKEN = {
    "nothing": (),
    "all": ("embeddings", "encoder", "decoder"),
    "embeddings": ("embeddings",),
    "decoder blocks": ("decoder",),
    "encoder blocks": ("encoder",),
    "all but decoder blocks": ("embeddings", "encoder"),
}
BATCH = 32


def part_of(weight: str) -> str:
    """Return the part that a weight of an encoder-decoder belongs to, by its name; a norm belongs to its blocks."""
    if ".encoder.block." in weight or ".encoder.final_layer_norm." in weight:
        return "encoder"
    if ".decoder.block." in weight or ".decoder.final_layer_norm." in weight:
        return "decoder"
    return "embeddings"


def save_start(run: "RunSettings", pretrained: Path, taken: Sequence[str], folder: Path) -> None:
    """Save a model of `run` with pretrained weights in the parts `taken` and the run's random weights elsewhere."""
    from lib.training.predictor import assemble

    _, backbone, _, model = assemble(run)
    drawn = {name: weight.clone() for name, weight in model.state_dict().items()}
    backbone.load_weights(model, pretrained)
    model.load_state_dict({name: drawn[name] for name in drawn if part_of(name) not in taken}, strict=False)
    model.save_pretrained(folder)


def measured_parts(run: "RunSettings", weights: Path | None) -> dict[str, float]:
    """Return the measured columns of parts.csv for a model of `run`; without `weights`, for one with random weights."""
    import numpy as np
    import torch

    from lib.tokens.stored import TokenDataset
    from lib.training.predictor import assemble, load_split

    task, backbone, tokenizer, model = assemble(run)
    if weights is not None:
        backbone.load_weights(model, weights)
    model.eval()
    tokens, collate = TokenDataset(load_split(run.data["validation"], sort=True)), task.collator(tokenizer)
    rows: dict[str, list[torch.Tensor]] = {"states": [], "attention": []}
    attention = model.base_model.inner.decoder.block[-1].layer[1].EncDecAttention
    attention.register_forward_hook(lambda _, __, found: rows["attention"].append(found[0][:, 0]))
    losses, written = torch.zeros(2), 0
    with torch.no_grad():
        for numbers in np.array_split(range(len(tokens)), max(1, len(tokens) // BATCH)):
            batch = collate([tokens[int(number)] for number in numbers])
            mask, labels = batch["attention_mask"], batch["labels"]
            count = int((labels >= 0).sum())
            states = model.base_model(batch["input_ids"], mask).last_hidden_state
            for place, shift in enumerate((1, 0)):  # the states of another text first, so that its attention can go
                of_others = {"encoder_last_hidden_state": states.roll(shift, 0), "attention_mask": mask.roll(shift, 0)}
                losses[1 - place] += count * model(labels=labels, **of_others).loss
                if shift:
                    rows["attention"].pop()
            rows["states"].append(states[mask.bool()])
            written += count
    shares = {}
    for name, found in rows.items():
        vectors = torch.cat(found).double()
        shares[f"common_{name}"] = float(vectors.mean(0).square().sum() / vectors.square().sum(1).mean())
    loss, loss_other = (losses / written).tolist()
    return {"loss": loss, "loss_other": loss_other, **shares}


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    parser = program.parser(__doc__)
    parser.add_argument("--pretrained", required=True, type=Path, metavar="RUN", help="run of span corruption")
    parser.add_argument("--finetuned", required=True, type=Path, metavar="RUN", help="run of text_to_text to repeat")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder to write to")
    parser.add_argument("--taken", nargs="+", choices=TAKEN, default=list(TAKEN), help="default: all choices")
    parser.add_argument("--seeds", nargs="+", type=int, default=[42, 43, 44], help="of fine-tuning (%(default)s)")
    arguments = parser.parse_args(argv)
    import pandas as pd

    from lib.core.files import write_text
    from lib.core.record import CONFIG, MODEL, RUN, read_record
    from lib.study.run import RunSettings, Start
    from lib.training.run import train

    pretraining, finetuning = (
        program.read_settings(RunSettings, str(folder / CONFIG))
        for folder in (arguments.pretrained, arguments.finetuned)
    )
    weights = arguments.pretrained / MODEL
    rows = [
        {"stage": pretraining.stage, "taken": taken, "seed": pretraining.seed} | measured_parts(pretraining, found)
        for taken, found in (("nothing", None), ("all", weights))
    ]
    for seed in arguments.seeds:
        for taken in arguments.taken:
            folder = arguments.out / taken.replace(" ", "-") / f"seed-{seed}"
            run = finetuning.model_copy(update={"seed": seed, "start": Start(checkpoint=str(folder / "start"))})
            if not (folder / "run" / RUN).is_file():
                save_start(run, weights, TAKEN[taken], folder / "start")
                train(run, folder / "run")
            row = {"stage": run.stage, "taken": taken, "seed": seed}
            row["test_f1_macro"] = read_record(folder / "run").metrics["test_f1_macro"]
            rows.append(row | measured_parts(run, folder / "run" / MODEL))
            frame = pd.DataFrame(rows)
            write_text(arguments.out / "parts.csv", frame.to_csv(index=False, float_format="%.6g"))
    print(frame.round(3).to_string(index=False))


if __name__ == "__main__":
    program.start(main)

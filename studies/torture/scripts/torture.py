"""Kill training runs with `kill -9` at random times, start them again, and compare them with undisturbed ones.

python studies/torture/scripts/torture.py --out FOLDER CONFIG [CONFIG ...]

CONFIG names the `config.yaml` of finished runs whose inputs still exist; runs without training are skipped. Each run
trains once undisturbed. Then it is killed --kills times, with a checkpoint after every step, and compared each time it
finishes: weights, predictions and history must be the same bit for bit. Prints the counts and writes them to
counts.json; exits with 1 if anything differs. To test three stages, three mechanisms and two further backbones:

    snakemake --configfile studies/torture/torture.yaml --cores all
    python scripts/preloaded.py python studies/torture/scripts/torture.py
    --out kills results/torture/runs/*/*/*/*/config.yaml

The first program lets all starts share one process that has already imported the libraries.
"""

from pathlib import Path

from lib.core import program
from lib.core.errors import RunError


def main(argv: program.Argv = None) -> None:
    """Run the program."""
    from lib.core.files import read_mapping
    from studies.torture.survival import report, survive

    parser = program.parser(__doc__)
    parser.add_argument("configs", nargs="+", type=Path, metavar="CONFIG", help="settings of a run")
    parser.add_argument("--kills", type=int, default=20, metavar="N", help="kills of each run; default 20")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random times; default 0")
    parser.add_argument("--out", required=True, type=Path, metavar="FOLDER", help="folder to appear")
    options = parser.parse_args(argv)
    if options.out.exists():
        raise RunError(f"{options.out}: exists already. Expected a new folder; give another one.")
    counts = []
    for number, config in enumerate(path for path in options.configs if read_mapping(path).get("recipe")):
        counts.append(survive(config, options.out / str(number), options.kills, options.seed + number))
        print(report(counts, options.out).splitlines()[number], flush=True)
    words = report(counts, options.out)
    print(words)
    if any(count.differences for count in counts):
        raise RunError(
            f"{options.out}: runs differ from undisturbed ones, or failed. Their logs and results are there."
        )


if __name__ == "__main__":
    program.start(main)

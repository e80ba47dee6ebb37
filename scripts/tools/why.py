"""List what would be made again for a target, and why: which setting, function, input or command changed.

python scripts/tools/why.py results/tables/f1.csv
python scripts/tools/why.py results/demo/tables/f1.csv --configfile config/demo.yaml

Runs nothing. Also lists finished steps that lack results, which Snakemake does not notice while newer results made from
them exist, runs whose records differ from the plan, and runs made with other versions of torch, transformers or
tokenizers than installed. Exits with 0 if there is nothing to do, with 1 if there is something, and with 2 if there is
no plan.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from lib.core import program
from lib.core.record import RUN, read_record
from lib.study.configuration import load_study, read_layers
from lib.workflow.commands.verification import other_versions, version_lines
from lib.workflow.planning.plan import Plan
from lib.workflow.planning.steps import in_order, workflow_with_plan
from lib.workflow.staleness.acceptance import unknown_steps
from lib.workflow.staleness.agreement import unlike_plan
from lib.workflow.staleness.causes import forcing, missing_report, missing_results, stale_report, stale_steps


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program with the arguments `argv`."""
    parser = program.study_parser(__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="files or rules, as with snakemake; default all")
    arguments = parser.parse_args(argv)
    plan = Plan(load_study(read_layers(arguments.configfile)))
    with workflow_with_plan(arguments.configfile, arguments.targets) as workflow:
        stale = stale_steps(workflow, plan.paths.code)
        missing = missing_results(workflow)
        if stale or not missing:
            print(stale_report(stale, ", ".join(arguments.targets) or plan.paths.results, len(in_order(workflow))))
        if missing:
            print(missing_report(missing, workflow))
        if unknown := unknown_steps(workflow):
            print(
                f"\n{unknown} finished steps are not in .snakemake/metadata, so that no change of their settings or "
                "code is detected. scripts/tools/accept.py accepts them unchanged."
            )
        runs = [Path(file).parent for job in in_order(workflow) for file in job.output if Path(file).name == RUN]
        records = {folder: read_record(folder) for folder in runs if (folder / RUN).is_file()}
        made_again = {Path(file).parent for job in stale for file in job.output}
        unlike = {
            folder: problems
            for folder, record in records.items()
            if folder not in made_again and (problems := unlike_plan(plan, folder, record))
        }
        if unlike:
            print("\nFinished runs that differ from the plan, though Snakemake considers them up to date:")
            for folder, problems in unlike.items():
                print(f"\n{folder}", *(f"    {problem}" for problem in problems), sep="\n")
            command = forcing([f"{folder}/{RUN}" for folder in unlike], workflow)
            print(f"\nThis repeats them, and everything made from them:\n    {command}")
        for line in version_lines(other_versions(records), len(records)):
            print(line)
    return int(bool(stale or missing or unlike))


if __name__ == "__main__":
    sys.exit(program.run(main, trouble=2))

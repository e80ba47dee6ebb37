"""Show the progress of a study: runs by stage, running runs and their expected ends, failures, hours spent and left.

Before anything ran, it shows the plan of the study: jobs, GPU and CPU hours, the longest job, memory, and
GB of downloads and disk, each with how it is known: measured, extrapolated or unknown.

python scripts/tools/status.py
python scripts/tools/status.py --configfile config/demo.yaml
python scripts/tools/status.py --configfile config/demo.yaml --follow LOG

Reads only files of runs, so it works on a login node, on a laptop, and while snakemake runs. Exits with 1 if a run
failed or lacks results, and with 2 if the study cannot be read.
"""

from lib.core import program


def main(argv: program.Argv = None) -> int:
    """Run the program with the arguments `argv`."""
    parser = program.study_parser(__doc__)
    parser.add_argument("--follow", metavar="LOG", help="show it again and again, with the steps in snakemake's LOG")
    arguments = parser.parse_args(argv)
    from lib.study.configuration import load_study, read_layers
    from lib.workflow.commands.needs import needs_report
    from lib.workflow.commands.progress import follow, progress, progress_report
    from lib.workflow.planning.plan import Plan
    from lib.workflow.planning.steps import in_order, workflow_with_plan

    plan = Plan(load_study(read_layers(arguments.configfile)))
    if arguments.follow:
        follow(plan, arguments.follow)
    found = progress(plan)
    if plan.study.execution.runs == "made" and all(run.state == "waiting" for run in found.values()):
        with workflow_with_plan(arguments.configfile, []) as workflow:
            print(needs_report(plan, in_order(workflow)))
    else:
        print(progress_report(plan, found))
    return int(any(run.state in ("failed", "missing") for run in found.values()))


if __name__ == "__main__":
    program.start(main, trouble=2)

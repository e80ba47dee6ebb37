"""List what would be made again for a target, and why: which setting, function, input or command changed.

python scripts/tools/why.py results/tables/f1.csv
python scripts/tools/why.py results/demo/tables/f1.csv --configfile config/demo.yaml

Runs nothing. Exits with 0 if there is nothing to do, with 1 if there is something, and with 2 if there is no plan.
Whether finished results are what their records say is a question for scripts/tools/verify.py.
"""

from lib.core import program


def main(argv: program.Argv = None) -> int:
    """Run the program with the arguments `argv`."""
    parser = program.study_parser(__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="files or rules, as with snakemake; default all")
    arguments = parser.parse_args(argv)
    from lib.study.configuration import load_study, read_layers
    from lib.workflow.planning.plan import Plan
    from lib.workflow.planning.steps import in_order, workflow_with_plan
    from lib.workflow.staleness.causes import stale_report, stale_steps

    paths = Plan(load_study(read_layers(arguments.configfile))).paths
    with workflow_with_plan(arguments.configfile, arguments.targets) as workflow:
        jobs, stale = in_order(workflow), stale_steps(workflow, paths.code)
        print(stale_report(stale, ", ".join(arguments.targets) or paths.results, len(jobs)))
        if unknown := [job for job in jobs if job not in stale and not workflow.persistence.has_metadata(job)]:
            no_record = "not in .snakemake/metadata, so no change of them is detected"
            print(f"\n{len(unknown)} finished steps are {no_record}. scripts/tools/accept.py accepts them unchanged.")
    return int(bool(stale))


if __name__ == "__main__":
    program.start(main, trouble=2)

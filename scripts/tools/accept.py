"""Accept stale results unchanged, and note why.

python scripts/tools/accept.py results/tables/f1.csv --reason "only renamed a function"
python scripts/tools/accept.py results/demo/runs/pretrain/sdpa/wikipedia/seed-420/run.json --configfile config/demo.yaml

Runs nothing. Accepts the target and everything that it is made from; scripts/tools/why.py lists this first. Refuses
missing and incomplete results with exit status 2, because they must be made.
"""

from lib.core import program


def main(argv: program.Argv = None) -> None:
    """Run the program with the arguments `argv`."""
    parser = program.study_parser(__doc__)
    parser.add_argument("targets", nargs="+", metavar="TARGET", help="files or rules, as with snakemake")
    parser.add_argument("--reason", help="why the change is harmless, for the records")
    arguments = parser.parse_args(argv)
    from lib.study.configuration import load_study, read_layers
    from lib.workflow.planning.plan import Plan
    from lib.workflow.planning.steps import in_order, workflow_with_plan
    from lib.workflow.staleness.acceptance import check_whole, note, touch
    from lib.workflow.staleness.causes import stale_report, stale_steps

    plan = Plan(load_study(read_layers(arguments.configfile)))
    with workflow_with_plan(arguments.configfile, arguments.targets) as workflow:
        stale = stale_steps(workflow, plan.paths.code)
        check_whole(workflow)
        touch(workflow, arguments.configfile, arguments.targets)
        note(plan.paths.code, stale, arguments.reason)
        print(stale_report(stale, ", ".join(arguments.targets), len(in_order(workflow)), "were accepted"))


if __name__ == "__main__":
    program.start(main, trouble=2)

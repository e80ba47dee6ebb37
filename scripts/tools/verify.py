"""Compare finished results with their records: input and output files, the settings of the plan, and the code.

python scripts/tools/verify.py
python scripts/tools/verify.py --configfile config/demo.yaml

Hashes every file again, which takes long for large files. Exits with 1 if something differs or is missing, and with 2
if a record cannot be read. Also lists runs made with other
versions of torch, transformers or tokenizers than installed; their results still match their records, so they do not
change the exit status.
"""

import shlex

from lib.core import program
from lib.core.record import RUN


def main(argv: program.Argv = None) -> int:
    """Run the program with the arguments `argv`."""
    arguments = program.study_parser(__doc__).parse_args(argv)
    from lib.study.configuration import load_study, read_layers
    from lib.workflow.commands.verification import named, verification_report, verify
    from lib.workflow.planning.plan import Plan

    plan = Plan(load_study(read_layers(arguments.configfile)))
    found = verify(plan.paths.results, plan.paths.code, plan)
    print(verification_report(found, plan.paths.results))
    own = {plan.paths.folder(run.id) for run in plan.runs}
    if foreign := [folder for folder in found.damaged if folder not in own]:
        print("\nRuns with changed files that are none of this study. Delete them, or name the study that made them:")
        print(*named(foreign), sep="\n")
    gone = [file for file in found.missing if file.endswith(f"/{RUN}")]
    if again := [*(f"{folder}/{RUN}" for folder in found.damaged if folder in own), *gone]:
        command = ["snakemake", "--cores", "all", "--configfile", *arguments.configfile, "--forcerun", *again]
        print("\nThis makes these runs again, all that is made from them, and what is not made yet:")
        print(f"    {shlex.join(command)}")
    return int(bool(found.differing or found.missing))


if __name__ == "__main__":
    program.start(main, trouble=2)

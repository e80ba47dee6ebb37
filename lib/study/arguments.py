"""Command line of the programs that execute one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lib.core.program import parser, read_settings

if TYPE_CHECKING:
    from lib.study.run import RunSettings


def read_run(
    documentation: str | None, argv: Sequence[str] | None, kind: type[RunSettings] | None = None
) -> tuple[RunSettings, str, str | None, str | None]:
    """Return settings, output folder, working folder and code digest of a run, from the arguments of its program.

    Args:
        documentation: docstring of the program.
        argv: its arguments; None = those of the command line.
        kind: class of the settings; None = `RunSettings`.
    """
    from lib.core.errors import ConfigError
    from lib.core.files import read_mapping
    from lib.core.search_space import laid_over
    from lib.study.run import RunSettings

    arguments = parser(documentation)
    arguments.add_argument("--config", required=True, help="settings of the run: path of a YAML file, or JSON")
    arguments.add_argument(
        "--settings-from", metavar="FILE", help="best settings of a search, by dotted name, in place of the config's"
    )
    arguments.add_argument("--execution", help="in place of `execution` of the config: a path, or JSON")
    arguments.add_argument("--out", required=True, metavar="FOLDER", help="new folder of the results")
    arguments.add_argument("--work", metavar="FOLDER", help="folder of working checkpoints; default: next to OUT")
    arguments.add_argument("--code", metavar="DIGEST", help="digest of the code that the run executes, for its record")
    options = arguments.parse_args(argv)
    settings = read_mapping(options.config)
    if options.settings_from:
        best = read_mapping(options.settings_from)
        if odd := [place for place in best if "." not in place]:
            raise ConfigError(f"{options.settings_from}: {odd[0]} is no setting by its dotted name. Give a best.json.")
        settings = laid_over(settings, best)
    if options.execution:
        settings["execution"] = read_mapping(options.execution)
    return read_settings(kind or RunSettings, settings), options.out, options.work, options.code

"""Command line of the programs that execute one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from lib.core.program import parser, read_settings

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lib.study.run import RunSettings

Settings = TypeVar("Settings", bound="BaseModel")


def read_run(documentation: str | None, argv: Sequence[str] | None) -> tuple[RunSettings, str, str | None, str | None]:
    """Return settings, output folder, working folder and code digest of a run, from the arguments of its program."""
    from lib.study.run import RunSettings

    return read_run_as(RunSettings, documentation, argv)


def read_run_as(
    kind: type[Settings], documentation: str | None, argv: Sequence[str] | None
) -> tuple[Settings, str, str | None, str | None]:
    """Return what `read_run` does, with settings of a subclass of `RunSettings`."""
    from lib.core.errors import MOST_OF_VALUE, ConfigError, cut
    from lib.core.files import read_mapping
    from lib.core.search_space import laid_over

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
            raise ConfigError(
                f"{options.settings_from}: {cut(odd[0], MOST_OF_VALUE)} is no setting by its dotted name. Expected "
                "names such as recipe.learning_rate; give the best.json of a search."
            )
        settings = laid_over(settings, best)
    if options.execution:
        settings["execution"] = read_mapping(options.execution)
    return read_settings(kind, settings), options.out, options.work, options.code

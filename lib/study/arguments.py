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
    from lib.core.errors import MOST_OF_VALUE, ConfigError, cut
    from lib.core.files import read_mapping
    from lib.core.search_space import laid_over
    from lib.study.run import RunSettings, Start

    arguments = parser(documentation)
    arguments.add_argument("--config", required=True, help="settings of the run: path of a YAML file, or JSON")
    arguments.add_argument("--splits", nargs="+", default=[], metavar="NAME", help="splits that --data gives, in order")
    arguments.add_argument("--data", nargs="+", default=[], metavar="PATH", help="in place of `data` of the config")
    arguments.add_argument("--tokenizer", metavar="FOLDER", help="in place of `tokenizer` of the config")
    arguments.add_argument("--start", metavar="FOLDER", help="weights to start from, in place of `start` of the config")
    arguments.add_argument("--teacher", metavar="FOLDER", help="in place of `task.teacher_weights` of the config")
    arguments.add_argument("--word-vectors", metavar="FOLDER", help="in place of `backbone.vectors_folder`")
    vectors = "vectors of encoders, in place of `backbone.vectors_folders`"
    arguments.add_argument("--vectors", nargs="+", metavar="FOLDER", help=vectors)
    arguments.add_argument("--settings-from", metavar="FILE", help="best settings of a search, by dotted name")
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
                f"{options.settings_from}: {cut(odd[0], MOST_OF_VALUE)} is no dotted name. Give best.json."
            )
        settings = laid_over(settings, best)
    if len(options.splits) != len(options.data):
        arguments.error(f"{len(options.splits)} --splits for {len(options.data)} --data; expected the same number")
    if options.data:
        settings["data"] = dict(zip(options.splits, options.data, strict=True))
    if options.tokenizer:
        settings["tokenizer"] = options.tokenizer
    if options.start:
        settings["start"] = Start.of(options.start).model_dump()
    for section, name, place in (
        ("task", "teacher_weights", options.teacher),
        ("backbone", "vectors_folder", options.word_vectors),
        ("backbone", "vectors_folders", options.vectors),
    ):
        if place and isinstance(settings.get(section), dict):  # any other value will be refused
            settings[section] |= {name: place}
    if options.execution:
        settings["execution"] = read_mapping(options.execution)
    return read_settings(kind or RunSettings, settings), options.out, options.work, options.code

"""Where runs lie that are recorded in folders of their own, so that the study does not make them."""

from collections.abc import Iterable
from pathlib import Path

from lib.core.errors import ConfigError
from lib.core.extensions import ROOT
from lib.core.files import files_in
from lib.core.record import RUN


def recorded_places(names: Iterable[str]) -> dict[str, str]:
    """Return the folder of each recorded run, and of the best settings of each search, by the path below that folder.

    Args:
        names: folders, relative to the working folder, or else to the project; the first that has a path counts.

    Raises:
        ConfigError: one is not there.
    """
    found: dict[str, str] = {}
    for name in names:
        folder = next((each for each in (Path(name), ROOT / name) if each.is_dir()), None)
        if folder is None:
            raise ConfigError(f"execution.recorded: {name} is not there. Expected a folder of records; leave it out.")
        runs = [file.parent for file in files_in(folder, f"runs/**/{RUN}")]
        for place in (*runs, *files_in(folder, "search/*/*/*.json")):
            found.setdefault(place.relative_to(folder).as_posix(), str(folder))
    return found

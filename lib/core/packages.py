"""Packages that only some settings need."""

from importlib.util import find_spec

from lib.core.errors import RunError


def require(package: str, setting: str) -> None:
    """Make sure that a package is there.

    Args:
        package: its name.
        setting: what needs it, as the configuration spells it.

    Raises:
        RunError: it is not installed.
    """
    if find_spec(package) is None:
        raise RunError(
            f"{setting} needs the package {package}, which is not installed. Install it (pip install {package}), or "
            "leave the setting out."
        )

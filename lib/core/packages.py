"""Packages that only some settings need."""

from importlib.util import find_spec

from lib.core.errors import RunError


def require(package: str, setting: str) -> None:
    """Raise an error if a package is not installed.

    Args:
        package: its name.
        setting: setting that needs it, as in the configuration.

    Raises:
        RunError: it is not installed.
    """
    if find_spec(package) is None:
        raise RunError(
            f"{setting} needs the package {package}, which is not installed. Install it (pip install {package}), or "
            "leave the setting out."
        )

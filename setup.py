"""How `pip install .` makes the package: `lib` becomes `attention_grid`; studies and benchmarks stay in the clone."""

from setuptools import find_packages, setup
from setuptools.command.editable_wheel import editable_wheel

NAME = "attention_grid"


class Editable(editable_wheel):
    """Makes an editable install: it has the folders of the clone, by their own names."""

    def finalize_options(self) -> None:
        """Replace the packages of the wheel."""
        own = self.distribution
        own.packages, own.package_dir, own.py_modules = ["lib", "studies", "benchmarks"], {}, [NAME]
        super().finalize_options()


setup(
    packages=[NAME, *(f"{NAME}.{each}" for each in find_packages("lib"))],
    package_dir={NAME: "lib"},
    cmdclass={"editable_wheel": Editable},
)

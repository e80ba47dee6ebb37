"""Write the files of a new mechanism, linear attention, which then becomes yours.

attention-grid new mine_own --folder mine
"""

import re
from pathlib import Path
from string import Template

from lib.attention.settings import MECHANISMS
from lib.core import program
from lib.core.errors import ConfigError
from lib.core.extensions import use
from lib.core.files import write_text


def main(argv: program.Argv = None) -> None:
    """Run the command with the arguments `argv`."""
    parser = program.parser(__doc__)
    parser.add_argument("name", metavar="NAME", help="kind of the mechanism")
    parser.add_argument("--folder", default="mine", help="extension that it becomes a part of (mine)")
    arguments = parser.parse_args(argv)
    name, folder = arguments.name, Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    use([str(folder)])
    if not name.isidentifier() or name in MECHANISMS.kinds() or (folder / "attention" / name).exists():
        raise ConfigError(f"{name}: no name for a new mechanism. Expected a Python identifier that no other kind has.")
    text = Template(Path(__file__).with_suffix(".md").read_text("utf-8")).substitute(name=name, folder=folder)
    for file, code in re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL):
        write_text(file, code)
    print(text.rpartition("```python")[2].partition("```")[2].strip())

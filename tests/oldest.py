"""Print constraints for pip that ask for the oldest version of everything that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path


def main():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    (listed,) = re.findall(r"\[(.+)\]", extras["all"][0])
    wanted = [*project["dependencies"], *(each for name in listed.split(",") for each in extras[name])]
    for name, least in (each.split(">=") for each in wanted if ";" not in each):  # of another system
        print(f"{name}=={least}.*")


if __name__ == "__main__":
    main()

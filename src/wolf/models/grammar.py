"""Table of models by name and their grammar: "local-trend", "seasonal:24", "trend+seasonal:24:3+cycle:11.5".

A name is that of the function in `wolf.models`, with - for _; its arguments follow after colons, in the order of the
function, and its variances keep their names. Components are added with +; a level is prepended to a sum without level
or trend, so that "seasonal:24" is "level+seasonal:24".
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from wolf.models.components import (
    Part,
    ar_noise,
    cycle,
    damped_trend,
    level,
    seasonal,
    straight_motion,
    trend,
    wiener_motion,
)
from wolf.models.structural import Sum, add_up


class Word(NamedTuple):
    """Row of the table.

    Attributes:
        example: as written on the command line. Shell completion reads the names from this file's text.
        make: arguments by name -> a component whose variances are free.
        words: one-line description.
        arguments: names of the arguments after colons.
        required: number of required arguments.
        columns: as in `Sum`.
        alone: whether it is a complete model, to which no component can be added.
    """

    example: str
    make: Callable[..., Part]
    words: str
    arguments: tuple[str, ...] = ()
    required: int = 0
    columns: int | None = 1
    alone: bool = False

    @property
    def name(self) -> str:
        """Name without arguments."""
        return self.example.partition(":")[0]

    @property
    def usage(self) -> str:
        """Name with its arguments, optional ones in brackets."""
        arguments = [f":{name.upper()}" for name in self.arguments]
        return self.name + "".join(arguments[: self.required] + [f"[{each}]" for each in arguments[self.required :]])

    @property
    def part(self) -> Part:
        """Component of the example."""
        return _read_piece(self.example, self.example)[1]

    @property
    def parameters(self) -> list[str]:
        """Variances of the model given by the name alone."""
        return parse_words(self.example).parameters


MODELS = (
    Word("local-level", level, "random-walk level", alone=True),
    Word("local-trend", trend, "random-walk level with a random-walk slope", alone=True),
    Word(
        "wiener-velocity",
        wiener_motion,
        "moving point whose velocity is Brownian motion in continuous time, one column per coordinate",
        columns=None,
        alone=True,
    ),
    Word(
        "constant-velocity",
        straight_motion,
        "moving point with white noise on position and velocity at every step, one column per coordinate",
        columns=None,
        alone=True,
    ),
)
PARTS = (
    Word("level", level, "random-walk level"),
    Word("trend", trend, "random-walk level with a random-walk slope"),
    Word(
        "damped-trend:0.9",
        damped_trend,
        "random-walk level with a slope that is multiplied by DAMPING (below 1) at every step",
        ("damping",),
        required=1,
    ),
    Word(
        "ar-noise:0.5",
        ar_noise,
        "AR(1) noise: DAMPING (below 1) is its correlation from step to step",
        ("damping",),
        required=1,
    ),
    Word(
        "seasonal:24",
        seasonal,
        "seasonal pattern of PERIOD steps, in full or (smaller, faster) as HARMONICS harmonics",
        ("period", "harmonics"),
        required=1,
    ),
    Word(
        "cycle:11.5",
        cycle,
        "stochastic cycle of about PERIOD steps, multiplied by DAMPING (at most 1) at every step",
        ("period", "damping"),
        required=1,
    ),
)
WORDS = {word.name: word for word in (*MODELS, *PARTS)}


def parse_words(text: str) -> Sum:
    """Parse a text as a sum of components.

    Example:
        >>> parse_words("trend+seasonal:24:3").parameters
        ['level_var', 'slope_var', 'seasonal_var', 'obs_var']
    """
    pieces = [_read_piece(text, piece.strip()) for piece in text.split("+")]
    whole = [word for word, _ in pieces if word.alone]
    if whole and len(pieces) > 1:
        listed = ", ".join(word.usage for word in PARTS)
        raise ValueError(f"{whole[0].name} is a complete model and cannot be part of a sum; components are {listed}")
    parts = [part for _, part in pieces]
    if not any("level" in part.roles for part in parts):
        parts.insert(0, level())
    return add_up(text, parts, columns=pieces[0][0].columns)


def find_word(name: str, among: dict[str, Word] = WORDS, extra: tuple[str, ...] = ()) -> Word:
    """Return a row of the table; the error for an unknown name lists all names.

    Args:
        name: as given by the user.
        among: rows to choose from.
        extra: further names to list in the error.
    """
    if name in among:
        return among[name]
    close = get_close_matches(name, [*among, *(word.usage for word in among.values())], n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join([*(word.usage for word in among.values()), *extra])
    raise ValueError(f"no model is called {name!r}.{hint} There are: {listed}")


def _read_piece(text: str, piece: str) -> tuple[Word, Part]:
    name, *given = piece.split(":")
    word = find_word(name, extra=("FILE.toml",))
    numbers = [_number(each) for each in given]
    if not word.required <= len(given) <= len(word.arguments) or None in numbers:
        raise ValueError(f"the model {word.name} is written {word.usage}, as {word.example}; got {text!r}")
    return word, word.make(**dict(zip(word.arguments, numbers, strict=False)))


def _number(text: str) -> int | float | None:
    """Parse a number, as an integer where possible; None if it is not a number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None

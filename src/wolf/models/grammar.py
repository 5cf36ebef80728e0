"""The table of models by name, and its grammar: "local-trend", "seasonal:24", "trend+seasonal:24:3+cycle:11.5".

A name is that of the function in `wolf.models`, with - for _; its arguments follow after colons, in the order of the
function, and its variances keep their names. Parts are added up with +; a sum with nothing to carry the level begins
with one, so that "seasonal:24" is "level+seasonal:24".
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
    """One row of the table.

    Attributes:
        make: arguments by name -> a part whose variances are free.
        words: what it is.
        example: as a person types it.
        arguments: names of what follows after colons.
        required: how many of them must.
        columns: as in `Sum`.
        alone: whether it is a whole model, that nothing is added to.
    """

    make: Callable[..., Part]
    words: str
    example: str
    arguments: tuple[str, ...] = ()
    required: int = 0
    columns: int | None = 1
    alone: bool = False

    @property
    def name(self) -> str:
        """Its name."""
        return self.example.partition(":")[0]

    @property
    def usage(self) -> str:
        """The name with its arguments, those that may be left out in brackets."""
        told = [f":{name.upper()}" for name in self.arguments]
        return self.name + "".join(told[: self.required] + [f"[{each}]" for each in told[self.required :]])

    @property
    def part(self) -> Part:
        """The part of the example."""
        return _read_piece(self.example, self.example)[1]

    @property
    def parameters(self) -> list[str]:
        """Variances of the model that the name alone stands for."""
        return parse_words(self.example).parameters


MODELS = (
    Word(level, "a level that wanders", "local-level", alone=True),
    Word(trend, "a level with a slope that wanders", "local-trend", alone=True),
    Word(
        wiener_motion,
        "a moving point whose velocity wanders in continuous time, a column for each coordinate",
        "wiener-velocity",
        columns=None,
        alone=True,
    ),
    Word(
        straight_motion,
        "a moving point, position and velocity shaken at every step, a column for each coordinate",
        "constant-velocity",
        columns=None,
        alone=True,
    ),
)
PARTS = (
    Word(level, "a level that wanders", "level"),
    Word(trend, "a level with a slope that wanders", "trend"),
    Word(
        damped_trend,
        "a level with a slope of which DAMPING (below 1) is left after a step",
        "damped-trend:0.9",
        ("damping",),
        required=1,
    ),
    Word(
        ar_noise,
        "noise that lasts: DAMPING (below 1) is its correlation from step to step",
        "ar-noise:0.5",
        ("damping",),
        required=1,
    ),
    Word(
        seasonal,
        "a pattern that repeats every PERIOD steps, in full or (smaller, faster) of HARMONICS waves",
        "seasonal:24",
        ("period", "harmonics"),
        required=1,
    ),
    Word(
        cycle,
        "a wave of about PERIOD steps, times DAMPING (at most 1) at every step",
        "cycle:11.5",
        ("period", "damping"),
        required=1,
    ),
)
WORDS = {word.name: word for word in (*MODELS, *PARTS)}


def parse_words(text: str) -> Sum:
    """Read the sum of parts that a text names.

    Example:
        >>> parse_words("trend+seasonal:24:3").parameters
        ['level_var', 'slope_var', 'seasonal_var', 'obs_var']
    """
    pieces = [_read_piece(text, piece.strip()) for piece in text.split("+")]
    whole = [word for word, _ in pieces if word.alone]
    if whole and len(pieces) > 1:
        listed = ", ".join(word.usage for word in PARTS)
        raise ValueError(f"{whole[0].name} is a whole model and takes no sum; the parts of a sum are {listed}")
    parts = [part for _, part in pieces]
    if not any("level" in part.roles for part in parts):
        parts.insert(0, level())
    return add_up(text, parts, columns=pieces[0][0].columns)


def find_word(name: str, among: dict[str, Word] = WORDS, extra: tuple[str, ...] = ()) -> Word:
    """Find a row of the table, or say which there are.

    Args:
        name: as a person gave it.
        among: rows to choose from.
        extra: other names to tell of.
    """
    if name in among:
        return among[name]
    close = get_close_matches(name, [*among, *(word.usage for word in among.values())], n=1, cutoff=0.5)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    listed = ", ".join([*(word.usage for word in among.values()), *extra])
    raise ValueError(f"no model is called {name!r}.{hint} There are: {listed}")


def _read_piece(text: str, piece: str) -> tuple[Word, Part]:
    name, *told = piece.split(":")
    word = find_word(name, extra=("FILE.toml",))
    numbers = [_number(each) for each in told]
    if not word.required <= len(told) <= len(word.arguments) or None in numbers:
        raise ValueError(f"the model {word.name} is written {word.usage}, as {word.example}; got {text!r}")
    return word, word.make(**dict(zip(word.arguments, numbers, strict=False)))


def _number(text: str) -> int | float | None:
    """Read a number, whole where it is written so; None if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None

"""Short posts from templates, hateful or not, to test classifiers of hate speech by function.

In the spirit of HateCheck (P. Röttger et al., "HateCheck: Functional Tests for Hate Speech Detection Models", 2021),
with templates of our own: each function is one way to be hateful or not, told by what a sentence does with a group of
people and not by slurs. Who flags every mention of a group fails the functions that mention one without hate; who looks
for hostile words fails negated and quoted hostility, and hostility against things. A dozen templates know little of
what people write, so they show kinds of errors, and not their frequency.

`group` is the number of the function, in the order of `FUNCTIONS`, or of the identity term. No two documents have the
same text, but all splits have the same templates: to train on them and test on them says nothing.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from lib.core.settings import check
from lib.preparing import toys

FILES = toys.FILES

IDENTITIES = (
    "women",
    "immigrants",
    "Muslims",
    "Jews",
    "Black people",
    "gay people",
    "trans people",
    "disabled people",
)
THINGS = ("rain", "traffic", "paperwork", "homework", "cold coffee", "spam", "mosquitoes", "this keyboard")
UNPROTECTED = ("bankers", "landlords", "referees", "telemarketers", "smokers", "vandals", "thieves", "bad drivers")
NO_IDENTITY = "no identity"


class Function(NamedTuple):
    """One way to be hateful, or not."""

    name: str
    hateful: bool
    templates: tuple[str, ...]
    targets: Sequence[str] | None = None
    """Words for the templates; None = identity terms."""


FUNCTIONS = (
    Function(
        "hostility",
        True,
        (
            "I hate {}.",
            "I really cannot stand {}.",
            "{} disgust me.",
            "I despise {} and I always will.",
            "{} make me sick.",
            "Nothing makes me as angry as {} do.",
            "I want nothing to do with {}, ever.",
            "Honestly, I hate {} with all my heart.",
        ),
    ),
    Function(
        "exclusion",
        True,
        (
            "{} do not belong here.",
            "{} should not be allowed to vote.",
            "We should keep {} out of our town.",
            "{} have no place in this country.",
            "No school should hire {}.",
            "I would never let {} into my house.",
            "This club would be better without {}.",
            "{} should stay away from our children.",
        ),
    ),
    Function(
        "threat",
        True,
        (
            "Somebody should hurt {}.",
            "{} will get what they deserve one day, and I will help.",
            "We have to get rid of {}, whatever it takes.",
            "{} had better watch their backs.",
            "It is time to drive {} out by force.",
            "If I see {} in my street, they will regret it.",
            "{} should be beaten until they leave.",
            "One day we will make all {} pay.",
        ),
    ),
    Function(
        "contempt",
        True,
        (
            "{} are worth less than everybody else.",
            "{} are all stupid.",
            "{} are a plague.",
            "You cannot trust {}, they are all liars.",
            "{} are hardly human.",
            "{} only ever bring trouble.",
            "All {} are lazy and dirty.",
            "The world would not miss {}.",
        ),
    ),
    Function(
        "negated praise",
        True,
        (
            "There is nothing good about {}.",
            "I have never met decent {}.",
            "{} do not deserve any respect.",
            "Nobody could ever like {}.",
            "{} will never be as good as we are.",
            "I see no reason to be kind to {}.",
            "{} have not given the world anything.",
            "No sane person wants {} as friends.",
        ),
    ),
    Function(
        "neutral mention",
        False,
        (
            "My neighbours are {}.",
            "The article is about {}.",
            "Many {} live in this city.",
            "Yesterday I talked to some {} at the station.",
            "{} were asked about their work in the survey.",
            "Three {} joined our team this year.",
            "The museum has an exhibition about {}.",
            "A friend of mine writes about {} and their history.",
        ),
    ),
    Function(
        "praise",
        False,
        (
            "I love {}.",
            "{} are welcome here.",
            "I admire {} for their courage.",
            "We need more {} in parliament.",
            "It is great to see {} succeed.",
            "{} have taught me a lot.",
            "I am proud to work with {}.",
            "This town is a better place thanks to {}.",
        ),
    ),
    Function(
        "negated hostility",
        False,
        (
            "I do not hate {}.",
            "{} do not disgust me at all.",
            "Nobody should ever hurt {}.",
            "I would never say that {} are stupid.",
            "{} are not a plague, they are people.",
            "It is not true that {} are all liars.",
            "There is no reason to despise {}.",
            "We must not keep {} out of our town.",
        ),
    ),
    Function(
        "quoted hostility",
        False,
        (
            'Whoever says "I hate {}" should be ashamed.',
            'He shouted "{} do not belong here", and we told him to stop.',
            'Posts like "{} are a plague" must be deleted.',
            'My teacher explained why "{} are all stupid" is a hateful thing to say.',
            'The court fined him for writing "get rid of {}".',
            'Saying "{} make me sick" says more about you than about them.',
            '"I cannot stand {}" is not an opinion, it is an insult.',
            'I reported the comment "somebody should hurt {}" to the police.',
        ),
    ),
    Function(
        "hostility to things",
        False,
        (
            "I hate {}.",
            "I really cannot stand {}.",
            "There is nothing good about {}.",
            "I despise {} and I always will.",
            "We have to get rid of {}, whatever it takes.",
            "Nothing makes me as angry as {}.",
            "I want nothing to do with {}, ever.",
            "The world would not miss {}.",
        ),
        THINGS,
    ),
    Function(
        "hostility to unprotected groups",
        False,
        (
            "I hate {}.",
            "I really cannot stand {}.",
            "{} make me sick.",
            "{} only ever bring trouble.",
            "{} are all liars.",
            "We should keep {} out of our town.",
            "Nothing makes me as angry as {} do.",
            "There is nothing good about {}.",
        ),
        UNPROTECTED,
    ),
    Function(
        "profanity",
        False,
        (
            "Damn, {} again.",
            "What the hell is it with {} today?",
            "I am so bloody tired of {}.",
            "To hell with {}.",
            "Holy crap, have you seen {}?",
            "{}, what a damn mess.",
            "Damn it, {} ruined my whole day.",
            "I had a hell of a time because of {}.",
        ),
        THINGS,
    ),
)


class Options(toys.ToyOptions):
    """Posts from templates."""

    identities: list[Annotated[str, Field(min_length=1)]] = Field(list(IDENTITIES), min_length=1)
    """Identity terms: groups of people, in the plural."""
    classes: list[str] = Field(["non-hateful", "hateful"], min_length=2, max_length=2)
    """Names of the harmless and of the hateful class in the dataset's `labels`."""
    group: Literal["function", "identity"] = "function"
    """Meaning of the number in `group`; it is the last one if no identity term is named."""

    @check
    def _terms_differ(self) -> Iterator[str]:
        for name in ("identities", "classes"):
            if len(set(values := getattr(self, name))) < len(values):
                yield f"{name}: {values} repeats a name. Expected distinct ones"

    def obstacles(self, documents: int) -> Iterator[str]:
        """See `lib.preparing.generators.GeneratorOptions.obstacles`."""
        yield from super().obstacles(documents)
        sizes = self.sizes(documents)
        if 0 < min(sizes) < len(FUNCTIONS):
            yield (
                f"{min(sizes)} documents of a split are too few for {len(FUNCTIONS)} functions. Leave as many in "
                "training, and for validation and the test"
            )
        for place, function in enumerate(FUNCTIONS):
            needed = sum(len(range(place, size, len(FUNCTIONS))) for size in sizes)
            there_are = len(function.templates) * len(function.targets or self.identities)
            if needed > there_are:
                yield (
                    f"{documents:,} need {needed} different ones of the function '{function.name}', but there are "
                    f"{there_are}. Lower it, or name more options.identities"
                )
                return


def group_names(options: Options) -> list[str]:
    """Return the names of the functions, or of the identity terms and of having none, by their numbers."""
    if options.group == "identity":
        return [*options.identities, NO_IDENTITY]
    return [function.name for function in FUNCTIONS]


def make(documents: int, rng: random.Random, options: Options) -> dict[str, dict[str, list]]:
    """Return the tables of the three splits: `text`, the name of the class as `label`, and `group`."""
    sizes = options.sizes(documents)
    names = group_names(options)
    made = [list(_posts(function, options.identities)) for function in FUNCTIONS]
    for posts in made:
        rng.shuffle(posts)
    rows: list[Any] = []  # labels are names
    for number in toys.evenly(range(len(FUNCTIONS)), sizes, rng):
        function = FUNCTIONS[number]
        text, target = made[number].pop()
        group = function.name if options.group == "function" else NO_IDENTITY if function.targets else target
        rows.append((text, options.classes[function.hateful], names.index(group)))
    return toys.tables(rows, sizes)


def _posts(function: Function, identities: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield every text of a function, and its target."""
    for target in function.targets or identities:
        for template in function.templates:
            text = template.format(target)
            yield text[0].upper() + text[1:], target

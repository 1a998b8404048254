"""``dsgt export``: the mean model of a checkpoint as a file that torch or any safetensors reader opens."""

from __future__ import annotations

import inspect
import runpy
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn

from dsgt import checkpoint
from dsgt.checkpoint.export import layout_of
from dsgt.commands import terminal
from dsgt.commands.errors import plain_errors
from dsgt.factories import Factory, is_factory
from dsgt.problems.named import BUILT_IN, built_in, named_model
from dsgt.randomness import seeded

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()
EPILOG = (
    "Examples:\n\n- `dsgt export runs/mine model.safetensors`\n"
    "- `dsgt export runs/mine model.pt --model resnet20:norm=batch` is what `dsgt train` was given\n"
    "- `dsgt export runs/mine model.pt --model train.py:build` calls `build()` of your script for the module"
)
EXPECTED = f"FILE.py:NAME, MODULE:NAME, or {', '.join(BUILT_IN)}, with arguments as in resnet20:norm=batch"
SIZES = range(4, 257)
"""Of images, in pixels: one of these a built-in network was made for."""


@app.command(epilog=EPILOG)
def export_command(
    folder: Annotated[Path, typer.Argument(help="Where the checkpoints are: the --checkpoint-dir of a run.")],
    file: Annotated[Path, typer.Argument(help="What to write; it ends in .safetensors or .pt.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="What dsgt train was given: resnet20:norm=batch, or your own, MODULE:NAME, with arguments as "
            "MODULE:NAME:KEY=VALUE; or FILE.py:NAME of the module, or of a function that makes it, which executes that "
            "file. Its names are used; what is not trained (buffers, frozen parameters) is taken from it."
        ),
    ] = None,
) -> None:
    """Write the mean model of the newest checkpoint to a file, as an ordinary state_dict."""
    with plain_errors(console):
        found = checkpoint.export(folder, file, None if model is None else module_called(model, folder))
        k = checkpoint.latest(folder)
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in found.items())
    console.print(f"The mean model after round {k} is in {file}: {shapes}.", highlight=False, soft_wrap=True)


def module_called(text: str, folder: Path) -> nn.Module:
    """The module by its name in ``dsgt train``, or the one that NAME of FILE.py is, or gives when it is called."""
    file, _, name = text.rpartition(":")
    if file.endswith(".py") and name:
        return _of_file(text, file, name)
    known = text.partition(":")[0] in BUILT_IN
    if not known and not is_factory(text):
        raise ValueError(f"--model is {text!r}; expected {EXPECTED}")
    model = named_model(text)
    if isinstance(model, Factory):
        with seeded(0):
            made: nn.Module = model.make(nn.Module, seed=0)
        return made
    return _built_in(model, [place.shape for place in layout_of(folder).places])


@torch.no_grad()
def _built_in(text: str, shapes: list[tuple[int, ...]]) -> nn.Module:
    """For samples of which nobody says anything: the parameters that were saved do."""
    sized = "size" in inspect.signature(BUILT_IN[text.partition(":")[0]]).parameters
    classes = shapes[-1][0]
    inputs = next((shape[1] for shape in shapes if len(shape) > 1), 1)
    channels = next((shape[1] for shape in shapes if len(shape) == 4), None)
    samples: Iterable[tuple[int, ...]] = [(inputs,)]
    if channels is not None:
        samples = ((channels, size, size) for size in (SIZES if sized else (32,)))
    wrong: ValueError | None = None
    for shape in samples:
        try:
            with torch.device("meta"):  # no numbers, only shapes
                made = built_in(text, shape, classes, 0)
        except ValueError as error:
            wrong = error
            continue
        if [tuple(p.shape) for p in made.parameters()] == shapes:
            return built_in(text, shape, classes, 0)
        wrong = ValueError(f"the run did not train {text}: its parameters have other shapes; give the model as there")
    raise wrong or ValueError(f"--model is {text!r}; expected {EXPECTED}")


def _of_file(text: str, file: str, name: str) -> nn.Module:
    sys.path.insert(0, str(Path(file).parent))  # what the file imports stands beside it
    try:
        found = runpy.run_path(file)[name]
        made = found if isinstance(found, nn.Module) else found()
    except Exception as error:  # whatever that file does wrong
        raise ValueError(f"--model {text} gives no module: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    if not isinstance(made, nn.Module):
        raise ValueError(f"--model {text} gives a {type(made).__name__}; expected a torch.nn.Module")
    return made

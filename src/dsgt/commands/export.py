"""``dsgt export``: the mean model of a checkpoint as a file that torch or any safetensors reader opens."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Annotated

import typer
from torch import nn

from dsgt import checkpoint
from dsgt.commands import terminal
from dsgt.commands.errors import plain_errors

app = typer.Typer(rich_markup_mode="markdown", add_completion=False)
console = terminal.console()
EPILOG = (
    "Examples:\n\n- `dsgt export runs/mine model.safetensors`\n"
    "- `dsgt export runs/mine model.pt --model train.py:build` calls `build()` of your script for the module"
)


@app.command(epilog=EPILOG)
def export_command(
    folder: Annotated[Path, typer.Argument(help="Where the checkpoints are: the --checkpoint-dir of a run.")],
    file: Annotated[Path, typer.Argument(help="What to write; it ends in .safetensors or .pt.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="FILE.py:NAME of the module, or of a function that makes it. Its names are "
            "used; what is not trained (buffers, frozen parameters) is taken from it. It executes that file."
        ),
    ] = None,
) -> None:
    """Write the mean model of the newest checkpoint to a file, as an ordinary state_dict."""
    with plain_errors(console):
        found = checkpoint.export(folder, file, None if model is None else module_called(model))
        k = checkpoint.latest(folder)
    shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in found.items())
    console.print(f"The mean model after round {k} is in {file}: {shapes}.", highlight=False, soft_wrap=True)


def module_called(text: str) -> nn.Module:
    """The module that NAME of FILE.py is, or gives when it is called."""
    file, _, name = text.rpartition(":")
    if not file.endswith(".py") or not name:
        raise ValueError(f"--model is {text!r}; expected FILE.py:NAME")
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

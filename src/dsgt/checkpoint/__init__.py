"""Save, load, resume: nothing lost when a job ends before its time."""

from dsgt.checkpoint.export import export, models
from dsgt.checkpoint.folder import CheckpointWarning, SaveError, latest, load, save
from dsgt.checkpoint.keeper import Folder
from dsgt.checkpoint.part import CheckpointError, DamagedError, DifferentError, Part
from dsgt.checkpoint.signals import Stopped
from dsgt.checkpoint.training import Training

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "DamagedError",
    "DifferentError",
    "Folder",
    "Part",
    "SaveError",
    "Stopped",
    "Training",
    "export",
    "latest",
    "load",
    "models",
    "save",
]

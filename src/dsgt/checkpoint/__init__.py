"""Save, load, resume: nothing lost when a job ends before its time."""

from dsgt.checkpoint.export import export, models
from dsgt.checkpoint.folder import SaveError, latest, load, save
from dsgt.checkpoint.keeper import Folder
from dsgt.checkpoint.lock import InUseError
from dsgt.checkpoint.part import CheckpointError, CheckpointWarning, DamagedError, DifferentError, Part
from dsgt.checkpoint.signals import Stopped
from dsgt.checkpoint.training import Training

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "DamagedError",
    "DifferentError",
    "Folder",
    "InUseError",
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

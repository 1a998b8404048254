"""Save, load, resume: nothing lost when a job ends before its time."""

from dsgt.checkpoint.folder import CheckpointWarning, SaveError, latest, load, save
from dsgt.checkpoint.part import CheckpointError, DamagedError, DifferentError, Part

__all__ = [
    "CheckpointError",
    "CheckpointWarning",
    "DamagedError",
    "DifferentError",
    "Part",
    "SaveError",
    "latest",
    "load",
    "save",
]

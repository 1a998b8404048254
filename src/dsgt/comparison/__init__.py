"""Methods side by side on one problem and one network, each at its best learning rate of a grid."""

from dsgt.comparison.fields import PAPER_GRID, read_settings
from dsgt.comparison.grid import compare
from dsgt.comparison.job import Job
from dsgt.comparison.method_runs import MethodRuns
from dsgt.comparison.result import Comparison
from dsgt.comparison.settings import Settings
from dsgt.comparison.sweep import Point, Sweep, sweep
from dsgt.comparison.work import News

__all__ = [
    "PAPER_GRID",
    "Comparison",
    "Job",
    "MethodRuns",
    "News",
    "Point",
    "Settings",
    "Sweep",
    "compare",
    "read_settings",
    "sweep",
]

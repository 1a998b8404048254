"""Vectors in fewer bytes: what a compressor keeps of a vector, and how that travels as a wire of bytes."""

from __future__ import annotations

from dsgt.compression.base import Compressor as Compressor
from dsgt.compression.base import Draw as Draw
from dsgt.compression.low_rank import LowRank as LowRank
from dsgt.compression.method import Compressed as Compressed
from dsgt.compression.named import COMPRESSORS as COMPRESSORS
from dsgt.compression.named import compressor as compressor
from dsgt.compression.plain import BFloat16 as BFloat16
from dsgt.compression.plain import Float16 as Float16
from dsgt.compression.plain import Identity as Identity
from dsgt.compression.quantised import Quantise as Quantise
from dsgt.compression.quantised import Sign as Sign
from dsgt.compression.sparse import RandK as RandK
from dsgt.compression.sparse import TopK as TopK
from dsgt.core import Packed as Packed
from dsgt.core import WireError as WireError

__all__ = [
    "COMPRESSORS",
    "BFloat16",
    "Compressed",
    "Compressor",
    "Draw",
    "Float16",
    "Identity",
    "LowRank",
    "Packed",
    "Quantise",
    "RandK",
    "Sign",
    "TopK",
    "WireError",
    "compressor",
]

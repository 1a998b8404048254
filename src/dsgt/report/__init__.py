"""Results as one HTML page that needs nothing but itself."""

from dsgt.report.page import page

__all__ = ["page"]

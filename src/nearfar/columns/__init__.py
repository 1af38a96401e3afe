"""What the columns of a table become before a metric measures them."""

from nearfar.columns.columns import Columns

__all__ = ["Columns"]

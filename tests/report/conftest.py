"""A library and a clone of it, compared."""

from libraries import document, folder, library, library_clone, loans

__all__ = ["document", "folder", "library", "library_clone", "loans"]

"""A small shop, and a clone of it that is a little off."""

from shop_databases import shop, shop_clone

__all__ = ["shop", "shop_clone"]

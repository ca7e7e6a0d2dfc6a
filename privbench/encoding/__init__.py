"""Encoders: columns to coded attributes and back, minted keys, and repaired constraints."""

"""Pieces that synthesizers share: denoising, fan-out laws, keys, assembling whole databases."""

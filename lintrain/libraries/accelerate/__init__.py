"""Accelerate and Lightning Fabric."""

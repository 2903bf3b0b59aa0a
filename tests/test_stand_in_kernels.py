"""Attention of packages for GPUs, on the CPU: it computes what torch computes, in the layout of the package."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from lintrain.runtime.stand_ins.attention_kernels import attention
from lintrain.runtime.stand_ins.packages import Empty


def expected(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention by its formula, for `[rows, tokens, heads, width]`."""
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), value)


def test_attention_has_the_layout_of_its_package() -> None:
    query, key, value = (torch.randn(2, 5, 3, 4) for _ in range(3))
    wanted = expected(query, key, value)
    flash, packed = attention("flash_attn_func"), attention("flash_attn_qkvpacked_func")
    efficient = attention("memory_efficient_attention")
    assert flash is not None
    assert packed is not None
    assert efficient is not None
    torch.testing.assert_close(flash(query, key, value), wanted)
    torch.testing.assert_close(packed(torch.stack([query, key, value], 2)), wanted)
    torch.testing.assert_close(efficient(query, key, value, attn_bias=None, op=None), wanted)
    flat = efficient(query[:, :, 0], key[:, :, 0], value[:, :, 0])
    torch.testing.assert_close(flat, expected(query[:, :, :1], key[:, :, :1], value[:, :, :1])[:, :, 0])


def test_causal_attention_sees_no_later_token() -> None:
    query, key, value = (torch.randn(1, 4, 2, 4) for _ in range(3))
    flash, efficient = attention("flash_attn_func"), attention("memory_efficient_attention")
    assert flash is not None
    assert efficient is not None
    made = flash(query, key, value, causal=True)
    torch.testing.assert_close(made[:, 0], value[:, 0])
    torch.testing.assert_close(efficient(query, key, value, attn_bias=SimpleNamespace()), made)


def test_fewer_heads_of_keys_are_shared() -> None:
    query, key, value = torch.randn(1, 4, 6, 4), torch.randn(1, 4, 2, 4), torch.randn(1, 4, 2, 4)
    flash = attention("flash_attn_func")
    assert flash is not None
    shared = [each.repeat_interleave(3, 2) for each in (key, value)]
    torch.testing.assert_close(flash(query, key, value), expected(query, *shared))


@pytest.mark.parametrize("module", ["flash_attn", "xformers.ops"])
def test_an_empty_package_for_gpus_has_attention(module: str) -> None:
    name = "memory_efficient_attention" if module == "xformers.ops" else "flash_attn_func"
    assert getattr(Empty(module), name) is attention(name)

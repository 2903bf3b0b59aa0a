"""Attention of packages for GPUs (flash-attn, xFormers): torch's own, which computes the same on every device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lintrain.runtime.child.library import loaded


def attention(name: str) -> Callable[..., Any] | None:
    """Torch's attention for a function of such a package; None for other names."""
    return KERNELS.get(name) if loaded("torch") is not None else None


def _attended(query: Any, key: Any, value: Any, *, bias: Any, dropout: float, scale: Any, causal: bool) -> Any:
    """For `[rows, tokens, heads, width]` in and out, or without heads as `[rows, tokens, width]`."""
    has_heads = query.dim() > 3
    # Torch has the heads before the tokens.
    turned = [each.transpose(1, 2) if has_heads else each for each in (query, key, value)]
    heads = turned[0].shape[1] // turned[1].shape[1] if has_heads else 1
    if heads > 1:  # several queries share the keys of one head
        turned[1:] = [each.repeat_interleave(heads, 1) for each in turned[1:]]
    attend: Any = loaded("torch").nn.functional.scaled_dot_product_attention  # type: ignore[union-attr]
    # Torch takes a mask or `is_causal`, not both.
    tensor = bias if hasattr(bias, "dim") else None
    made = attend(*turned, attn_mask=tensor, dropout_p=dropout, scale=scale, is_causal=causal and tensor is None)
    return made.transpose(1, 2) if has_heads else made


def _memory_efficient(
    query: Any, key: Any, value: Any, attn_bias: Any = None, p: float = 0.0, scale: Any = None, **_: Any
) -> Any:
    # A bias that is no tensor is one of the package's masks, which hides later tokens in nearly every script.
    is_causal = attn_bias is not None and not hasattr(attn_bias, "dim")
    return _attended(query, key, value, bias=attn_bias, dropout=p, scale=scale, causal=is_causal)


def _flash(
    q: Any, k: Any, v: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False, **_: Any
) -> Any:
    return _attended(q, k, v, bias=None, dropout=dropout_p, scale=softmax_scale, causal=causal)


def _flash_packed(qkv: Any, dropout_p: float = 0.0, softmax_scale: Any = None, causal: bool = False, **_: Any) -> Any:
    query, key, value = qkv.unbind(2)
    return _flash(query, key, value, dropout_p, softmax_scale, causal)


KERNELS: Mapping[str, Callable[..., Any]] = {
    "memory_efficient_attention": _memory_efficient,
    "flash_attn_func": _flash,
    "flash_attn_qkvpacked_func": _flash_packed,
}

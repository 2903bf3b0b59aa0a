"""Why `lintrain check` starts quickly. Every speed trick that costs readability is in this package, with what it saves.

Measured as CPU time on two scripts: one that uses no training library (57 ms) and one that trains (150 ms).

| trick | saves on each |
|---|---|
| `lazy_dataclass`: methods are generated when a class makes its first instance | 3 ms, 63 ms |
| `lazy_pattern`: regular expressions are compiled when they are first used | 0 ms, 12 ms |
| `command_line`: plain options are read without importing click | 13 ms, 13 ms |
| `garbage_collection`: the collector runs rarely | 6 ms, 14 ms |

| trick of the language server | saves |
|---|---|
| `light_attrs`: classes of lsprotocol have no generated methods to compare and to show them | 75 ms |

`lintrain.rule` adds one: its `Evidence` is a type for type checkers alone, because rules only name it in annotations
(0 and 3 ms).

For the same reason, functions import what only some runs need (`from lintrain.fix import apply`): libcst, pydantic,
rich and pygls each take longer to import than a small script takes to check.
"""

"""The runner of the README's code blocks sees what it should see."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.readme_blocks import blocks, run

PAGE = """
# Title

```sh
make demo
```

```python
x = 2
print("mean", 1.5 * x)
```

```text
mean   3.1
```

```python
print(f"x = {x}")
```
```text exact
x = 2
```

```python
x += 1
```
That was that.
```text
not what it prints
```
"""


def test_blocks_run_in_one_namespace(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE)
    assert run(tmp_path / "page.md") == 3
    assert [(block.line, block.printed) for block in blocks(PAGE)] == [
        (9, "mean   3.1\n"),
        (18, "x = 2\n"),
        (25, None),
    ]


@pytest.mark.parametrize("old, new", [("mean   3.1", "median 3.1"), ("x = 2\n```\n\n", "x = 3\n```\n\n")])
def test_another_text_is_seen(tmp_path: Path, old: str, new: str) -> None:
    assert old in PAGE
    (tmp_path / "page.md").write_text(PAGE.replace(old, new))
    with pytest.raises(AssertionError, match="where the page says"):
        run(tmp_path / "page.md")


def test_an_error_names_the_line_of_the_page(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("text\n\n```python\nx = 1\nx / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run(tmp_path / "page.md")
    assert caught.traceback[-1].lineno + 1 == 5

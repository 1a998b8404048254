"""The tables of methods in README and docs are those of the code."""

from __future__ import annotations

import pytest

import dsgt
from support.tables import FILES, FIRST, ROOT, TABLES, equation, methods, others, renewed, stability


@pytest.mark.parametrize("file", FILES)
def test_the_tables_of_methods_are_those_of_the_code(file: str):
    page = (ROOT / file).read_text()
    assert page.count("<!-- table: ") == page.count("<!-- end of table -->") >= 1
    assert renewed(page) == page, f"{file} is stale: run python tests/support/tables.py"


def test_every_table_stands_somewhere_and_holds_every_method():
    pages = "".join((ROOT / file).read_text() for file in FILES)
    assert all(f"<!-- table: {name} -->" in pages for name in TABLES)
    assert all(f"`{name}`" in methods() for name in dsgt.ALGORITHMS)
    readme = methods(FIRST) + others()
    assert all(f"`{name}`" in readme for name in dsgt.ALGORITHMS | dsgt.algorithms.COMPOSITIONS)
    assert len(stability().splitlines()) == 2 + len(dsgt.ALGORITHMS)


def test_a_stale_table_is_noticed_and_renewed():
    page = "before\n<!-- table: methods -->\n| old |\n<!-- end of table -->\nafter"
    assert renewed(page) == f"before\n<!-- table: methods -->\n{methods()}\n<!-- end of table -->\nafter"


def test_what_the_tables_say_is_what_a_method_declares():
    lines = {line.split("`")[1]: line for line in methods().splitlines()[2:]}
    assert lines["dsgt"] == (
        "| DSGT, decentralized stochastic gradient tracking | `dsgt` | `X' = W (X - lr Y); Y' = W Y + S' - S` "
        "| 2, 1 free | yes | doubly stochastic |"
    )
    assert "`decentlam`, beta=0.9 |" in lines["decentlam"]
    assert equation(dsgt.DPSGD()) == "X' = W X - lr S"
    assert "| D², decentralized training over decentralized data | 2 | 0.6667 ... 2 | 0.9444 ... 2 |" in stability()

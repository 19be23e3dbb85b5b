"""Tables that fit the terminal: columns where every word has room, a list elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from capex.report.tables import Table as ReportTable

PROSE = 24  # characters; in a narrower column sentences become a ribbon of single words
JUSTIFY: dict[str, JustifyMethod] = {"l": "left", "r": "right"}
FRAME = 3  # characters around a cell: a border and two spaces


class FittedTable:
    """The first of some tables whose columns break no word and leave prose room; where none does,
    the last one as a list.

    In the list each row has a head, the value of its first column, and below it the others with
    their names: short values share a line, longer ones have lines of their own.
    """

    def __init__(self, *tables: Table):
        self.tables = tables

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in self.tables:
            if _fit(table, console, options.max_width):
                yield table
                return
        yield from _list(self.tables[-1], console)


def _fit(table: Table, console: Console, width: int) -> bool:
    """Give the columns of a table their widths; False where there is not enough for all."""
    least, most = [], []
    for column in table.columns:
        sizes = [console.measure(_text(console, c)) for c in (column.header, *column.cells)]
        line, word = max(s.maximum for s in sizes), max(s.minimum for s in sizes)
        least.append(line if column.no_wrap else max(word, min(line, PROSE)))
        most.append(line)
    spare = width - FRAME * len(least) - 1 - sum(least)
    if spare < 0:
        return False
    # Whoever lacks least is served first: what is left over goes to the prose.
    order = sorted(range(len(least)), key=lambda k: most[k] - least[k])
    for served, k in enumerate(order):
        more = min(most[k] - least[k], spare // (len(order) - served))
        table.columns[k].width = least[k] + more
        spare -= more
    return True


def _list(table: Table, console: Console) -> RenderResult:
    if table.title:
        yield Text(_text(console, table.title).plain, "table.title")
    names = [_text(console, column.header).plain for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        head, *values = (_text(console, cell) for cell in row)
        yield Text.assemble(head, style="bold")
        short: list[Text] = []
        long: list[Text] = []
        for name, value in zip(names[1:], values, strict=True):
            if value:
                fact = Text.assemble((f"{name}: " if name else "", "dim"), value)
                (short if len(value) < PROSE else long).append(fact)
        for line in ([Text("; ").join(short)] if short else []) + long:
            yield Padding(line, (0, 0, 0, 2), expand=False)
    if table.caption:
        yield Text(_text(console, table.caption).plain, "table.caption")


def _text(console: Console, cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell), highlight=False)


def print_report_table(console: Console, made: ReportTable) -> None:
    """Print a table of the report, one for each of its groups, and below them its caption."""
    grids: list[Table] = []
    for row in made.rows:
        cells = made.cells(row)
        if row.kind == "group" or not grids:
            grids.append(_grid(made, cells[0] if row.kind == "group" else ""))
        if row.kind != "group":
            grids[-1].add_row(*map(escape, cells), style="bold" if row.kind == "total" else "")
    for grid in grids:
        console.print(FittedTable(grid))
    for text in filter(None, (made.caption, made.stand_in)):
        console.print(text, markup=False, highlight=False)


def _grid(made: ReportTable, group: str) -> Table:
    title = ": ".join(filter(None, (made.name.replace("-", " "), group)))
    grid = Table(title=escape(title), title_justify="left")
    for column in made.head:
        justify = JUSTIFY[column.align]
        grid.add_column(column.head, justify=justify, overflow="fold")
    return grid

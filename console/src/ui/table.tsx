// Tables: rows of things with their columns. On a narrow screen each row becomes a card of terms and values.
import type { ComponentChildren } from "preact";

export type Column<Row> = {
  head: string;
  /** Aligned right. */
  numeric?: boolean;
  /** What the column means, for those who ask. */
  help?: string;
  cell: (row: Row) => ComponentChildren;
};

type TableProps<Row> = {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string;
  selected?: string;
  select?: (row: Row) => void;
  empty: ComponentChildren;
  /** Few short columns: a table on narrow screens too. */
  small?: boolean;
};

// The roles are spelled out, because a table that is laid out as cards loses its own.
export function Table<Row>({
  caption,
  columns,
  rows,
  rowKey,
  selected,
  select,
  empty,
  small = false,
}: TableProps<Row>) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard.
    // biome-ignore lint/a11y/useSemanticElements: a group of one table is no fieldset.
    <div class="scroll" role="group" aria-label={caption} tabIndex={0}>
      {/* biome-ignore-start lint/a11y/noRedundantRoles: see above. */}
      <table role="table" class={small ? "small" : "cards"}>
        <caption class="hidden">{caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {columns.map((column) => (
              <th key={column.head} role="columnheader" scope="col" class={cellClass(column)} title={column.help}>
                {column.head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr
              key={rowKey(row)}
              role="row"
              class={select === undefined ? "" : "selectable"}
              aria-current={selected === rowKey(row) ? "true" : undefined}
              onClick={select === undefined ? undefined : (event) => clicked(event) && select(row)}
            >
              {columns.map((column) => (
                <td key={column.head} role="cell" class={cellClass(column)} data-label={column.head}>
                  <span>{column.cell(row)}</span>
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {/* biome-ignore-end lint/a11y/noRedundantRoles: see above. */}
    </div>
  );
}

/** Whether a click meant the row, and not something in it. */
function clicked(event: MouseEvent): boolean {
  return event.target instanceof Element && event.target.closest("a, button, input") === null;
}

function cellClass<Row>(column: Column<Row>): string {
  return column.numeric ? "number" : "";
}

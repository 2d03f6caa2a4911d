// Tables: rows of things with their columns. On a narrow screen each row becomes a card of terms and values.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { NOTHING } from "../format";

export type Column<Row> = {
  head: string;
  /** Aligned right. */
  numeric?: boolean;
  /** What the column means, for those who ask. */
  help?: string;
  cell: (row: Row) => ComponentChildren;
  /** Left out on narrow screens, where what is selected says it too. */
  extra?: boolean;
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
  /** Something stands below it: when it is long it scrolls by itself, under a head that stays. */
  bounded?: boolean;
  /** Many columns, closer together. */
  tight?: boolean;
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
  bounded = false,
  tight = false,
}: TableProps<Row>) {
  const scroll = useRef<HTMLDivElement>(null);
  useEffect(() => showSelected(scroll.current), [selected, rows.length]);
  if (rows.length === 0) return <div class="empty">{empty}</div>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by the keyboard.
    // biome-ignore lint/a11y/useSemanticElements: a group of one table is no fieldset.
    <div ref={scroll} class={bounded ? "scroll bounded" : "scroll"} role="group" aria-label={caption} tabIndex={0}>
      {/* biome-ignore-start lint/a11y/noRedundantRoles: see above. */}
      <table role="table" class={`${small ? "small" : "cards"} ${tight ? "tight" : ""}`}>
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
              {columns.map((column) => {
                const content = column.cell(row);
                return (
                  <td
                    key={column.head}
                    role="cell"
                    class={`${cellClass(column)} ${content === NOTHING ? "nothing-known" : ""}`}
                    data-label={column.head}
                  >
                    <span>{content}</span>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
      {/* biome-ignore-end lint/a11y/noRedundantRoles: see above. */}
    </div>
  );
}

/** Scrolls a list, and not the page, to what is selected in it. */
function showSelected(list: HTMLElement | null): void {
  const row = list?.querySelector("[aria-current]");
  if (list === null || row === null || row === undefined || list.scrollHeight <= list.clientHeight) return;
  const [inner, outer] = [row.getBoundingClientRect(), list.getBoundingClientRect()];
  const middle = (inner.top + inner.bottom - outer.top - outer.bottom) / 2;
  if (inner.top < outer.top + inner.height || inner.bottom > outer.bottom) list.scrollTop += middle;
}

/** Whether a click meant the row, and not something in it. */
function clicked(event: MouseEvent): boolean {
  return event.target instanceof Element && event.target.closest("a, button, input") === null;
}

function cellClass<Row>(column: Column<Row>): string {
  return `${column.numeric ? "number" : ""} ${column.extra ? "extra" : ""}`;
}

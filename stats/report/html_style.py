"""What does the HTML report look like?

A column of text, tables that scroll by themselves, pages that print. The trap: the report is one file that is mailed
about, so the sheet stands inside it and asks for no font and no picture from elsewhere.
"""

from __future__ import annotations

CSS = """\
:root { color-scheme: light; --ink: #222; --soft: #5c5c5c; --line: #d8d8d8; --wash: #f5f6f7; --blue: #0072b2; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
       font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
header, main { max-width: 70rem; margin: 0 auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 1.5rem 0 .75rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; padding-top: .75rem; border-top: 3px solid var(--blue);
     overflow-wrap: anywhere; }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
a { color: var(--blue); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .65rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); vertical-align: bottom; }
td:first-child, th:first-child { padding-left: .15rem; }
.left { text-align: left; white-space: normal; }
td.left:not(:first-child) { min-width: 6.5rem; }
.caption, figcaption { color: var(--soft); font-size: .84rem; margin: .45rem 0 0; overflow-wrap: anywhere; }
.alert { background: #fff3e6; border-left: 4px solid #d55e00; padding: .5rem .75rem; overflow-wrap: anywhere; }
figure { margin: 1.25rem 0 2rem; }
figure svg { width: 100%; min-width: 34rem; max-width: 46rem; height: auto; display: block; }
.warnings { margin: 0; padding-left: 1.2rem; font-size: .9rem; }
.warnings code { color: var(--soft); font-size: .8rem; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 .75rem; font-size: .9rem; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  body { font-size: 15px; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .35rem; }
}
@media print {
  @page { margin: 14mm; }
  body { font-size: 10pt; }
  header, main { max-width: none; padding: 0; }
  article + article { break-before: page; }
  figure, section > h3 + .scroll, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; }
  figure svg { min-width: 0; }
  table { font-size: 6.8pt; }
  th { white-space: normal; }
  th, td { padding: .15rem .3rem; }
  td.left:not(:first-child) { min-width: 0; }
  .alert { border: 1px solid #d55e00; }
}
"""

"""How the page looks, in a module so that no file has to be found."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #56606b; --line: #d5dae0; --paper: #fff; --band: #f4f6f8;
  --matches: #1c6b3a; --differs: #a33a00; --not-comparable: #56606b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #a4adb6; --line: #3a424b; --paper: #14181c;
  --band: #1d2329; --matches: #7fd19b; --differs: #ffab7a; --not-comparable: #a4adb6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem 1rem 4rem; max-width: 76rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 1rem 0 .5rem; }
h2 { font-size: 1.35rem; margin: 3rem 0 .5rem; padding-top: .75rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p, figcaption, dd { max-width: 48rem; }
nav { margin: 1rem 0; } nav a { margin-right: 1rem; white-space: nowrap; } a { color: inherit; }
small, .soft { color: var(--soft); font-size: .875rem; }
.tally { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .75rem; }
.tally li { border: 1px solid var(--line); border-radius: .4rem; padding: .5rem 1rem; }
.tally b { font-size: 1.5rem; margin-right: .4rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: 1.5rem; }
figure { margin: 0; min-width: 0; }
figure h3 { margin: .5rem 0; }
figure > svg { display: block; width: 100%; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: .3rem; }
figure svg * { stroke-linejoin: round; stroke-linecap: butt; }
figcaption { font-size: .9375rem; margin-top: .4rem; }
figcaption p { margin: .25rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9375rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: .25rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--line); } tbody th { font-weight: normal; }
td.number, th.number { text-align: right; white-space: nowrap; }
table.numbers { width: 100%; table-layout: fixed; }
table.numbers col.what { width: 31%; } table.numbers col.amount { width: 11%; } table.numbers col.ours { width: 16%; }
table.numbers col.difference { width: 8.5%; } table.numbers col.verdict { width: 12.5%; }
table.numbers td.number { white-space: normal; }
.scroll tbody th { white-space: nowrap; } .scroll thead th { white-space: normal;
  min-width: 4.6rem; vertical-align: bottom; }
figure.wide { grid-column: 1 / -1; }
table.numbers caption { color: var(--ink); font-weight: 600; padding-top: 1.5rem; }
table.numbers tr.other { background: var(--band); }
.tag { border: 1px solid var(--line); border-radius: .3rem; padding: 0 .35rem; font-size: .8125rem;
  white-space: nowrap; }
.verdict { white-space: nowrap; font-weight: 600; }
.matches { color: var(--matches); } .differs { color: var(--differs); }
.not-comparable { color: var(--not-comparable); font-weight: normal; }
details { margin: .4rem 0; } summary { cursor: pointer; color: var(--soft); font-size: .9375rem; }
dl.provenance { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9375rem; }
dl.provenance dt { color: var(--soft); } dl.provenance dd { margin: 0; }
@media (max-width: 46rem) {
  table.numbers, table.numbers tbody, table.numbers tr, table.numbers td, table.numbers th { display: block; }
  table.numbers thead { display: none; }
  table.numbers caption { display: block; }
  table.numbers tr { border-bottom: 2px solid var(--line); padding: .5rem; }
  table.numbers td, table.numbers th, table.numbers td.number { border: 0; padding: .1rem 0; text-align: left;
    white-space: normal; }
  table.numbers td[data-label]::before { content: attr(data-label) ": "; color: var(--soft); font-weight: normal; }
  table.numbers td:empty, table.numbers td.nothing { display: none; }
  .scroll th, .scroll td { padding: .25rem .3rem; font-size: .875rem; }
  dl.provenance { grid-template-columns: 1fr; } dl.provenance dd { margin-bottom: .4rem; }
}
@media print { details > * { display: block; } h2 { break-after: avoid; } figure { break-inside: avoid; } }
"""

"""The frame of a page, and how it looks: on phones, on paper, light and dark."""

from __future__ import annotations

# Of a report; the colours of pictures are put in.
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title><style>
:root {{ --ink:#1d2329; --soft:#5b6570; --paper:#ffffff; --pale:#eef3f7; --line:#d5dbe1;
  --main:#2b6390; --bad:#9c3030; --bad-pale:#fbf0f0; {colors} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ --ink:#e4e8ec; --soft:#9aa5b0;
  --paper:#14181c; --pale:#1f262d; --line:#39424b; --main:#7fb6e0; --bad:#ef9a9a;
  --bad-pale:#2d1c1e; {dark_colors} }} }}
{rules}</style></head><body>
<header><h1>{title_shown}</h1>
<p class="note" dir="auto">{subtitle}</p></header>
{body}
<footer class="note">Written {date} by gpukfl {version}.</footer>
</body></html>
"""
RULES = """* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; max-width: 64rem;
  margin: 1.5rem auto; padding: 0 1rem; color: var(--ink); background: var(--paper);
  overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; }
.note { color: var(--soft); font-size: .9rem; margin: .3rem 0; }
.scores { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; }
.score { background: var(--pale); border-radius: 8px; padding: .6rem 1.1rem; }
.score b { display: block; font-size: 1.5rem; color: var(--main); }
.caveat { border-left: 4px solid var(--bad); padding: .4rem .8rem; background: var(--bad-pale);
  margin: .6rem 0; }
.wide { overflow-x: auto; }
td, p { unicode-bidi: plaintext; }
table { border-collapse: collapse; margin: .4rem 0; }
td, th { padding: .3rem 1rem .3rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; }
th { font-weight: 600; font-size: .9rem; color: var(--soft); vertical-align: bottom; }
td:last-child, th:last-child { padding-right: 0; }
.chosen td { font-weight: 600; color: var(--main); }
td + td { white-space: nowrap; } .words td + td { white-space: normal; }
td bdi { display: inline-block; max-width: min(26rem, 45vw);
  overflow-wrap: break-word; }
.part td:first-child { padding-left: 1.2rem; }
.bars { display: inline-block; width: 6rem; vertical-align: middle; }
.bar { display: block; height: .7rem; min-width: 1px; background: var(--main); opacity: .75;
  border-radius: 2px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1rem 1.6rem; }
figure { margin: .4rem 0; max-width: 34rem; }
figcaption { font-weight: 600; font-size: .95rem; margin-bottom: .2rem; }
svg { display: block; width: 100%; height: auto; font-family: system-ui, -apple-system,
  "Segoe UI", sans-serif; stroke-linejoin: round; stroke-linecap: butt; }
svg text { fill: var(--ink); }
pre { background: var(--pale); padding: .8rem; border-radius: 6px; overflow-x: auto;
  font-size: .85rem; line-height: 1.4; }
@media (max-width: 40rem) { body { margin: .8rem auto; } td, th { padding-right: .7rem; }
  .bars { width: 3.5rem; } }
@media print { body { max-width: none; margin: 0; font-size: 10.5pt; }
  .pictures { grid-template-columns: 1fr 1fr; }
  figure, tr, .score, .caveat { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .wide, pre { overflow: visible; } pre { white-space: pre-wrap; }
  .bar, .score, pre, .caveat { -webkit-print-color-adjust: exact; print-color-adjust: exact; } }
"""

"""What an accessibility audit looks at in a page, in the browser that shows it: names, landmarks, headings, contrast."""

from __future__ import annotations

from typing import Any

LOOK = r"""
() => {
  const found = [];
  const seen = (el) => el.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}) && el.getClientRects().length > 0;
  const where = (el) => {
    const own = el.id ? '#' + el.id : el.className && el.className.baseVal === undefined ? '.' + String(el.className).split(' ')[0] : '';
    return el.tagName.toLowerCase() + own + ' ' + JSON.stringify((el.textContent || '').trim().slice(0, 30));
  };
  if (!document.documentElement.lang) found.push('html has no language');
  if (!document.title.trim()) found.push('no title');
  if (document.querySelectorAll('main, [role=main]').length !== 1) found.push('not one main landmark');
  if (!document.querySelector('meta[name=viewport]')) found.push('no viewport');

  const ids = [...document.querySelectorAll('[id]')].map((el) => el.id);
  for (const id of new Set(ids.filter((id, at) => ids.indexOf(id) !== at))) found.push('id twice: ' + id);

  for (const el of document.querySelectorAll('img')) if (!el.hasAttribute('alt')) found.push('no alt: ' + el.src);
  for (const el of document.querySelectorAll('svg[role=img]'))
    if (!el.getAttribute('aria-label') && !el.querySelector('title') && !el.getAttribute('aria-labelledby')) found.push('unnamed picture: ' + where(el));

  let last = 0;
  for (const el of document.querySelectorAll('h1, h2, h3, h4, h5, h6')) {
    if (!seen(el)) continue;
    const level = Number(el.tagName[1]);
    if (level > last + 1) found.push('heading skips a level: ' + where(el));
    last = level;
  }

  const named = (el) => (el.getAttribute('aria-label') || el.getAttribute('title') || el.getAttribute('aria-labelledby') || el.textContent.trim()
    || (el.labels && el.labels.length) || el.querySelector('img[alt]:not([alt=""]), svg title, svg[aria-label]'));
  for (const el of document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, [role=button]'))
    if (seen(el) && !named(el)) found.push('no name: ' + where(el));

  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const cache = new Map();
  const rgba = (text) => {
    if (!cache.has(text)) {
      canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = '#000'; canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      cache.set(text, [r, g, b, a / 255]);
    }
    return cache.get(text);
  };
  const over = (top, under) => [0, 1, 2].map((at) => top[at] * top[3] + under[at] * (1 - top[3])).concat(1);
  const ground = (el) => {
    const layers = [];
    for (let up = el; up; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (style.backgroundImage !== 'none') return null;  // what stands on a picture cannot be judged so
      const colour = rgba(style.backgroundColor);
      if (colour[3] > 0) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255, 1]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => { const c = part / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const weak = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const el = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT', 'TITLE', 'DESC'].includes(el.tagName) || !seen(el)) continue;
    if (el.closest('[aria-hidden=true], [disabled], svg')) continue;
    const style = getComputedStyle(el), under = ground(el);
    if (!under) continue;
    let faded = 1;
    for (let up = el; up; up = up.parentElement) faded *= Number(getComputedStyle(up).opacity);
    const colour = rgba(style.color);
    const text = over([colour[0], colour[1], colour[2], colour[3] * faded], under);
    const [a, b] = [light(text), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      const key = style.color + ' on ' + under.slice(0, 3).map(Math.round);
      if (!weak.has(key)) weak.set(key, 'contrast ' + ratio.toFixed(2) + ', ' + key + ': ' + where(el));
    }
  }
  return found.concat([...weak.values()]);
}
"""


def problems(page: Any) -> list[str]:
    """What an audit would object to in the page that a Playwright page shows; contrast by WCAG's AA."""
    found: list[str] = page.evaluate(LOOK)
    return found

// Draws what trace.js has read, and answers the mouse and the keyboard.
'use strict';

const kGutter = 170, kAxis = 24, kRow = 18, kHead = 24, kGap = 8, kCounter = 40;
const view = byId('view'), canvas = view.querySelector('canvas'), context = canvas.getContext('2d');
const isDark = matchMedia('(prefers-color-scheme: dark)');
let from = 0, to = 1, width = 0, height = 0, selected = null, sought = '', asked = 0;
const length = Math.max(trace.end, 0.001);

// What is below what: {y, height, kind: 'process', 'lane' or 'counter', of}.
const bands = [];
let bottom = kAxis;
const band = (kind, of, size) => {
  bands.push({kind, of, y: bottom, height: size});
  bottom += size;
};
for (const process of trace.processes.values()) {
  const own = [...process.lanes.values()].filter(lane => lane.slices.length);
  if (!own.length && !process.counters.size) continue;
  band('process', process, kHead);
  for (const lane of own) band('lane', lane, lane.rows.length * kRow + kGap);
  for (const counter of process.counters.values()) band('counter', counter, kCounter + kGap);
}

const xOf = time => kGutter + (time - from) / (to - from) * (width - kGutter);
const timeOf = x => from + (x - kGutter) / (width - kGutter) * (to - from);

const hues = new Map();
function colorOf(slice) {
  let hue = hues.get(slice.name);
  if (hue === undefined) {
    let hash = 7;
    for (const c of slice.name) hash = (hash * 31 + c.codePointAt(0)) % 3600;
    hue = hash / 10;
    hues.set(slice.name, hue);
  }
  const faint = sought && !slice.found;
  if (isDark.matches) return `hsl(${hue} ${faint ? 8 : 42}% ${faint ? 20 : 38}%)`;
  return `hsl(${hue} ${faint ? 12 : 62}% ${faint ? 93 : 78}%)`;
}

function fitted(text, room) {
  if (context.measureText(text).width <= room) return text;
  const most = Math.floor(text.length * room / context.measureText(text).width) - 1;
  return most < 2 ? '' : text.slice(0, most) + '…';
}

// Draws a row of slices. Those of less than a pixel share one: as many are drawn as there is room.
function drawRow(row, y, colors) {
  let drawn = 0;
  let i = firstAfter(row, from);
  if (i > 0 && row[i - 1].end === from) --i;
  while (i < row.length && row[i].start <= to) {
    let slice = row[i];
    const left = Math.max(kGutter, xOf(slice.start)), right = Math.min(width, xOf(slice.end));
    let next = i + 1;
    if (right - left < 1) {
      next = Math.max(next, firstAfter(row, timeOf(left + 1), next));
      for (let k = i; sought && k < next; ++k) if (row[k].found) slice = row[k];
    }
    context.fillStyle = colorOf(slice);
    context.fillRect(left, y, Math.max(1, right - left - (right - left > 4 ? 1 : 0)), kRow - 1);
    if (right - left > 28 && !(sought && !slice.found)) {
      context.fillStyle = colors.ink;
      context.fillText(fitted(shown(slice.name), right - left - 8), left + 4, y + kRow / 2);
    }
    if (slice === selected) {
      context.strokeStyle = colors.ink;
      context.lineWidth = 2;
      context.strokeRect(left + 1, y + 1, Math.max(2, right - left - 2), kRow - 3);
    }
    ++drawn;
    i = next;
  }
  return drawn;
}

function drawCounter({points, most}, y, colors) {
  if (!points.length || most <= 0) return;
  const yOf = value => y + kCounter - Math.max(0, value) / most * (kCounter - 4);
  context.beginPath();
  context.moveTo(kGutter, y + kCounter);
  let i = Math.max(0, firstAfter(points, from) - 1);
  context.lineTo(Math.max(kGutter, xOf(points[i].end)), y + kCounter);
  while (i < points.length && points[i].end <= to) {
    // Of the points within a pixel the highest, then the last.
    const x = Math.max(kGutter, xOf(points[i].end));
    const next = Math.max(i + 1, firstAfter(points, timeOf(x + 1), i));
    let high = 0;
    for (let k = i; k < next; ++k) high = Math.max(high, points[k].value);
    context.lineTo(x, yOf(high));
    context.lineTo(x, yOf(points[next - 1].value));
    const end = next < points.length ? Math.min(width, xOf(points[next].end)) : width;
    context.lineTo(end, yOf(points[next - 1].value));
    i = next;
  }
  context.lineTo(width, y + kCounter);
  context.closePath();
  context.globalAlpha = 0.35;
  context.fillStyle = colors.accent;
  context.fill();
  context.globalAlpha = 1;
}

function drawAxis(colors) {
  const rough = (to - from) / Math.max(1, (width - kGutter) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(times => times * power).find(each => each >= rough);
  context.fillStyle = colors.paper;
  context.fillRect(0, 0, width, kAxis);
  context.strokeStyle = colors.line;
  context.lineWidth = 1;
  context.fillStyle = colors.quiet;
  for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
    const x = Math.round(xOf(time)) + 0.5;
    context.beginPath();
    context.moveTo(x, kAxis - 6);
    context.lineTo(x, kAxis);
    context.stroke();
    if (x < width - 60) context.fillText(duration(Math.round(time / power) * power), x + 3, 10);
  }
  context.beginPath();
  context.moveTo(0, kAxis - 0.5);
  context.lineTo(width, kAxis - 0.5);
  context.stroke();
}

// Where a slice's row is on the canvas.
function yOf(slice) {
  const found = bands.find(each => each.of === slice.lane);
  return found.y - view.scrollTop + slice.depth * kRow + kRow / 2;
}

function drawArrow(arrow, colors) {
  const x1 = xOf(arrow.from.start), y1 = yOf(arrow.from), x2 = xOf(arrow.to.start);
  const y2 = yOf(arrow.to), bend = Math.min(80, Math.abs(x2 - x1) / 2 + 20);
  context.strokeStyle = colors.loss;
  context.fillStyle = colors.loss;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x1, y1);
  context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
  context.stroke();
  context.beginPath();
  context.moveTo(x2, y2);
  context.lineTo(x2 - 7, y2 - 4);
  context.lineTo(x2 - 7, y2 + 4);
  context.fill();
}

function draw() {
  asked = 0;
  const ratio = devicePixelRatio || 1;
  width = view.clientWidth;
  height = Math.min(bottom, view.clientHeight || bottom);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const style = getComputedStyle(document.documentElement);
  const colors = {};
  for (const name of ['ink', 'quiet', 'paper', 'panel', 'line', 'accent', 'loss']) {
    colors[name] = style.getPropertyValue('--' + name).trim();
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  context.textBaseline = 'middle';
  context.fillStyle = colors.paper;
  context.fillRect(0, 0, width, height);
  let drawn = 0;
  const label = (text, y) => {
    context.fillStyle = colors.paper;
    context.fillRect(0, y - kRow / 2, kGutter - 1, kRow);
    context.fillStyle = colors.ink;
    context.fillText(fitted(shown(text), kGutter - 18), 12, y);
  };
  for (const {kind, of, y, height: size} of bands) {
    const top = y - view.scrollTop;
    if (top + size < kAxis || top > height) continue;
    if (kind === 'process') {
      context.fillStyle = colors.panel;
      context.fillRect(0, top, width, size);
      context.fillStyle = colors.ink;
      context.font = `600 ${context.font}`;
      context.fillText(shown(of.name), 8, top + size / 2);
      context.font = context.font.replace('600 ', '').replace('bold ', '');
      continue;
    }
    if (kind === 'lane') {
      of.rows.forEach((row, depth) => { drawn += drawRow(row, top + 4 + depth * kRow, colors); });
      label(of.name, top + 4 + kRow / 2);
    } else {
      drawCounter(of, top + 4, colors);
      label(of.name, top + kCounter / 2 - 4);
      context.fillStyle = colors.quiet;
      context.fillText(`at most ${amount(of.most)}`, 12, top + kCounter / 2 + 12);
    }
  }
  context.save();
  context.beginPath();
  context.rect(kGutter, kAxis, width - kGutter, height - kAxis);
  context.clip();
  const arrows = byId('arrows').checked ? trace.arrows.filter(({from: a, to: b}) =>
    Math.min(a.start, b.start) < to && Math.max(a.end, b.end) > from) : [];
  for (const arrow of arrows.slice(0, 500)) drawArrow(arrow, colors);
  if (selected) for (const arrow of selected.arrows) drawArrow(arrow, colors);
  context.restore();
  drawAxis(colors);
  canvas.dataset.drawn = drawn;
  byId('range').textContent = `${duration(to - from)} of ${duration(length)}`;
}

const redraw = () => { asked ||= requestAnimationFrame(draw); };

// Shows the times from `a` to `b`, or as much of them as there is.
function show(a, b) {
  const span = Math.min(length, Math.max(b - a, 0.01));
  from = Math.min(Math.max(0, (a + b - span) / 2), length - span);
  to = from + span;
  redraw();
}

const zoom = (times, x = (kGutter + width) / 2) => {
  const time = timeOf(x);
  show(time - (time - from) / times, time + (to - time) / times);
};
const pan = share => show(from + share * (to - from), to + share * (to - from));

function under(event) {
  const box = canvas.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  if (x < kGutter || y < kAxis) return {x};
  const place = y + view.scrollTop;
  const found = bands.find(each => place >= each.y && place < each.y + each.height);
  if (!found) return {x};
  const slack = 2 * (to - from) / (width - kGutter), time = timeOf(x);
  if (found.kind === 'counter') {
    const {points, name} = found.of;
    const point = points[Math.max(0, firstAfter(points, time) - 1)];
    return {x, text: point ? `${name}: ${amount(point.value)}` : name};
  }
  if (found.kind !== 'lane') return {x};
  const row = found.of.rows[Math.floor((place - found.y - 4) / kRow)] || [];
  const slice = row[firstAfter(row, time)] || row[row.length - 1];
  const before = row[firstAfter(row, time) - 1];
  for (const each of [slice, before]) {
    if (each && each.start <= time + slack && each.end >= time - slack) return {x, slice: each};
  }
  return {x};
}

function select(slice, show_it) {
  selected = slice;
  const panel = byId('slice');
  panel.replaceChildren();
  if (!slice) {
    panel.textContent = 'Click a slice for its figures.';
    redraw();
    return;
  }
  const add = (parent, name, text) => {
    const element = document.createElement(name);
    element.textContent = text;
    parent.append(element);
    return element;
  };
  add(panel, 'strong', shown(slice.name));
  const list = add(panel, 'dl', '');
  const row = (key, value) => { add(list, 'dt', shown(key)); return add(list, 'dd', value); };
  row('kind', shown(slice.kind));
  row('where', shown(`${slice.lane.process.name}, ${slice.lane.name}`));
  row('begins', duration(slice.start));
  row('takes', `${duration(slice.end - slice.start)}, without what is within ${
    duration(Math.max(0, slice.own))}`);
  for (const [key, value] of Object.entries(slice.args)) {
    row(key, shown(typeof value === 'object' ? JSON.stringify(value) : value));
  }
  for (const arrow of slice.arrows) {
    const other = arrow.from === slice ? arrow.to : arrow.from;
    const link = add(row(other === arrow.to ? 'leads to' : 'comes from', ''), 'button',
      shown(other.name));
    link.addEventListener('click', () => select(other, true));
  }
  if (show_it) {
    const middle = (slice.start + slice.end) / 2, half = Math.max((slice.end - slice.start) * 2, 5);
    if (slice.end < from || slice.start > to || slice.end - slice.start < (to - from) / 200) {
      show(middle - half, middle + half);
    }
    const y = yOf(slice);
    if (y < 2 * kAxis || y > height - kRow) view.scrollTop += y - height / 2;
  }
  redraw();
}

let hits = [], hit = -1;
function seek(text) {
  sought = text.toLowerCase();
  hits = [];
  for (const slice of trace.slices) {
    slice.found = sought !== '' && slice.name.toLowerCase().includes(sought);
    if (slice.found) hits.push(slice);
  }
  hits.sort((a, b) => a.start - b.start);
  hit = -1;
  byId('hits').textContent = sought ? `${hits.length} found` : '';
  redraw();
}
function next(by) {
  if (!hits.length) return;
  hit = (hit + by + hits.length) % hits.length;
  byId('hits').textContent = `${hit + 1} of ${hits.length}`;
  select(hits[hit], true);
}

let drag = null;
canvas.addEventListener('pointerdown', event => {
  drag = {x: event.clientX, from, moved: false};
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener('pointermove', event => {
  const tip = byId('tip');
  if (drag) {
    const by = event.clientX - drag.x;
    drag.moved ||= Math.abs(by) > 3;
    const begin = drag.from - by * (to - from) / (width - kGutter);
    if (drag.moved) show(begin, begin + to - from);
    tip.hidden = true;
    return;
  }
  const {slice, text} = under(event);
  tip.hidden = !slice && !text;
  if (tip.hidden) return;
  tip.textContent = text ? shown(text) : `${shown(slice.name)}\n${duration(slice.end - slice.start)}`;
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
});
canvas.addEventListener('pointerup', event => {
  if (drag && !drag.moved) select(under(event).slice || null);
  drag = null;
});
canvas.addEventListener('pointercancel', () => { drag = null; });
canvas.addEventListener('pointerleave', () => { byId('tip').hidden = true; });
canvas.addEventListener('dblclick', event => {
  const {slice} = under(event);
  if (slice) show(slice.start, slice.end);
});
canvas.addEventListener('wheel', event => {
  if (event.ctrlKey || event.metaKey) zoom(1.0015 ** -event.deltaY, under(event).x);
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / width);
  else return;
  event.preventDefault();
}, {passive: false});
canvas.addEventListener('keydown', event => {
  const actions = {w: () => zoom(1.5), s: () => zoom(1 / 1.5), a: () => pan(-0.2),
    d: () => pan(0.2), ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2),
    '+': () => zoom(1.5), '-': () => zoom(1 / 1.5), 0: () => show(0, length),
    Escape: () => select(null)};
  if (event.ctrlKey || event.metaKey || !actions[event.key]) return;
  actions[event.key]();
  event.preventDefault();
});
byId('nearer').addEventListener('click', () => zoom(2));
byId('farther').addEventListener('click', () => zoom(0.5));
byId('whole').addEventListener('click', () => show(0, length));
byId('arrows').addEventListener('change', redraw);
byId('search').addEventListener('input', event => seek(event.target.value));
byId('search').addEventListener('keydown', event => {
  if (event.key === 'Enter') next(event.shiftKey ? -1 : 1);
});
byId('next').addEventListener('click', () => next(1));
view.addEventListener('scroll', redraw);
isDark.addEventListener('change', redraw);
new ResizeObserver(redraw).observe(view);

const kMostRows = 100;
function fill(table, rows) {
  for (const cells of rows.slice(0, kMostRows)) {
    const row = byId(table).insertRow();
    cells.forEach((cell, i) => {
      const place = row.insertCell();
      place.textContent = cell;
      if (i > 0) place.className = 'number';
    });
  }
  byId(table).closest('section').hidden = !rows.length;
}

const names = new Map();
for (const slice of trace.slices) {
  const sums = names.get(slice.name) || {calls: 0, all: 0, own: 0};
  names.set(slice.name, sums);
  ++sums.calls;
  sums.all += slice.end - slice.start;
  sums.own += Math.max(0, slice.own);
}
fill('names', [...names].sort(([, a], [, b]) => b.own - a.own).map(([name, sums]) =>
  [shown(name), sums.calls, duration(sums.own), duration(sums.all), duration(sums.all / sums.calls)]));

// Collectives that several processes have in common, those first whose ranks began furthest apart.
const shared = new Map();
for (const slice of trace.slices) {
  if (slice.kind !== 'collective') continue;
  const key = `${slice.name} #${slice.args['Sequence number']}`;
  if (!shared.has(key)) shared.set(key, []);
  shared.get(key).push(slice);
}
const together = [...shared].filter(([, slices]) => slices.length > 1).map(([key, slices]) => {
  const last = slices.reduce((a, b) => a.start > b.start ? a : b);
  const apart = last.start - Math.min(...slices.map(slice => slice.start));
  return {key, slices, last, apart, joint: Math.min(...slices.map(slice => slice.end)) - last.start};
});
fill('collectives', together.sort((a, b) => b.apart - a.apart).map(each =>
  [shown(each.key), each.slices.length, duration(each.apart), shown(each.last.lane.process.name),
    each.joint > 0 ? duration(each.joint) : 'none']));

const counted = (count, one, more) => `${count.toLocaleString('en')} ${count === 1 ? one : more}`;
document.querySelector('header p').textContent = [
  counted(trace.slices.length, 'slice', 'slices'), counted(lanes.length, 'lane', 'lanes'),
  counted(trace.processes.size, 'process', 'processes'),
  counted(trace.arrows.length, 'arrow', 'arrows'), duration(trace.end)].join(', ');
byId('space').style.height = `${bottom}px`;
select(null);
show(0, length);
draw();
if (location.hash) {  // page.html#NAME shows the first slice of that name
  byId('search').value = decodeURIComponent(location.hash.slice(1));
  seek(byId('search').value);
  next(1);
  draw();
}
Object.assign(canvas.dataset, {slices: trace.slices.length, lanes: lanes.length,
  arrows: trace.arrows.length, counters: bands.filter(each => each.kind === 'counter').length});

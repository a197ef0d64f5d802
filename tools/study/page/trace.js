// Reads the trace that the element #trace holds, in Chrome's format: complete events and moments as
// slices in lanes, counters, arrows. What a trace says is text, whatever is in it.
'use strict';

const byId = id => document.getElementById(id);

// Names without what would move a cursor or turn the direction of writing.
const shown = value => String(value).replace(
  /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
  c => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

function duration(us) {
  const [unit, size] = us >= 1e6 ? ['s', 1e6] : us >= 1e3 ? ['ms', 1e3] : us >= 1 || us === 0
    ? ['µs', 1] : ['ns', 1e-3];
  return `${Number((us / size).toPrecision(4))} ${unit}`;
}

function amount(value) {
  if (Math.abs(value) < 1e4) return String(Number(value.toPrecision(4)));
  const power = Math.min(4, Math.floor(Math.log10(Math.abs(value)) / 3));
  return Number((value / 1000 ** power).toPrecision(4)) + ['', 'k', 'M', 'G', 'T'][power];
}

const kRounding = 0.002;  // microseconds by which times of one event may differ

function laneOf(trace, event) {
  const process = trace.processes.get(event.pid) ||
    {name: `process ${event.pid}`, lanes: new Map(), counters: new Map()};
  trace.processes.set(event.pid, process);
  const lane = process.lanes.get(event.tid) ||
    {name: `thread ${event.tid}`, process, slices: [], rows: []};
  process.lanes.set(event.tid, lane);
  return lane;
}

// Puts the slices of a lane into rows, each in that of its depth, and finds their own times.
function nest(lane) {
  lane.slices.sort((a, b) => a.start - b.start || b.end - a.end);
  const open = [];
  for (const slice of lane.slices) {
    while (open.length && open[open.length - 1].end <= slice.start + kRounding &&
           open[open.length - 1].end <= slice.end) open.pop();
    const parent = open[open.length - 1];
    if (parent) parent.own -= Math.min(slice.end, parent.end) - slice.start;
    slice.depth = open.length;
    (lane.rows[slice.depth] ||= []).push(slice);
    open.push(slice);
  }
}

// The number of the first of a row's slices that ends behind `time`.
function firstAfter(row, time, low = 0) {
  let high = row.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row[middle].end > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

// The deepest slice of a lane at a time.
function sliceAt(lane, time) {
  for (let depth = lane.rows.length - 1; depth >= 0; --depth) {
    const row = lane.rows[depth];
    const slice = row[firstAfter(row, time - kRounding)];
    if (slice && slice.start <= time + kRounding) return slice;
  }
  return null;
}

function read(events) {
  const trace = {processes: new Map(), slices: [], arrows: [], end: 0, start: Infinity};
  const timed = events.filter(event => Number.isFinite(event.ts));
  for (const event of timed) trace.start = Math.min(trace.start, event.ts);
  if (!timed.length) trace.start = 0;
  const ends = [];
  for (const event of events) {
    if (event.ph === 'M') {
      const name = event.args && event.args.name;
      if (event.name === 'process_name') laneOf(trace, event).process.name = String(name);
      if (event.name === 'thread_name') laneOf(trace, event).name = String(name);
      continue;
    }
    if (!Number.isFinite(event.ts)) continue;
    const start = event.ts - trace.start;
    if (event.ph === 'X' || event.ph === 'i' || event.ph === 'I') {
      const length = event.ph === 'X' ? Math.max(0, Number(event.dur) || 0) : 0;
      const lane = laneOf(trace, event);
      const slice = {name: String(event.name), kind: String(event.cat ?? ''), start, own: length,
        end: start + length, args: event.args || {}, lane, depth: 0, arrows: [], found: false};
      lane.slices.push(slice);
      trace.slices.push(slice);
      trace.end = Math.max(trace.end, slice.end);
    } else if (event.ph === 'C') {
      const {counters} = laneOf(trace, event).process;
      for (const [key, value] of Object.entries(event.args || {})) {
        if (!Number.isFinite(value)) continue;
        const name = key === 'value' ? String(event.name) : `${event.name}, ${key}`;
        if (!counters.has(name)) counters.set(name, {name, points: [], most: 0});
        const counter = counters.get(name);
        counter.points.push({end: start, value});
        counter.most = Math.max(counter.most, value);
      }
      trace.end = Math.max(trace.end, start);
    } else if (event.ph === 's' || event.ph === 'f') {
      ends.push({key: `${event.cat}:${event.id}`, begins: event.ph === 's', start,
        lane: laneOf(trace, event)});
    }
  }
  for (const {lanes, counters} of trace.processes.values()) {
    for (const lane of lanes.values()) nest(lane);
    for (const {points} of counters.values()) points.sort((a, b) => a.end - b.end);
  }
  const begun = new Map();
  for (const end of ends) {
    const slice = sliceAt(end.lane, end.start);
    if (!slice) continue;
    if (end.begins) begun.set(end.key, slice);
    else if (begun.has(end.key)) {
      const arrow = {from: begun.get(end.key), to: slice};
      arrow.from.arrows.push(arrow);
      slice.arrows.push(arrow);
      trace.arrows.push(arrow);
    }
  }
  return trace;
}

const trace = read(JSON.parse(byId('trace').textContent).traceEvents);
const lanes = [...trace.processes.values()].flatMap(process => [...process.lanes.values()])
  .filter(lane => lane.slices.length);

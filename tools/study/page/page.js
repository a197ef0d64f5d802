// Draws the page's charts. Each canvas says in data-chart what it shows:
//   type     "bars" (horizontal, with intervals), "waterfall", "lines" or "dots"
//   x, y     {title, log, unit, begin}
//   labels   names of the bars
//   bars     [{value, low, high, kind}], kind "gain", "loss" or "same"; waterfall: {from, to}
//   series   [{name, points: [[x, y], ...], dashed, error: [[low, high], ...]}]
//   one      a line at this value, where nothing is gained or lost
'use strict';

const styles = getComputedStyle(document.documentElement);
const color = name => styles.getPropertyValue('--' + name).trim();
// Okabe and Ito's colours, which the colour-blind tell apart; marks differ too.
const palette = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9'];
const marks = ['circle', 'rect', 'triangle', 'rectRot', 'cross', 'star'];

const number = value => {
  if (value === null || !Number.isFinite(value)) return '';
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  if (size !== 0 && size < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
};
const measured = (value, unit) => number(value) + (unit ? (unit === '×' ? '' : ' ') + unit : '');

// Whether a value is 1, 2 or 5 times a power of ten: what logarithmic axes are marked with.
const round = value => /^[125](\.0+)?e/.test(value.toExponential(6));

function scale(axis, extra) {
  return Object.assign({
    type: axis.log ? 'logarithmic' : 'linear',
    beginAtZero: Boolean(axis.begin),
    title: {display: Boolean(axis.title), text: axis.title, color: color('quiet')},
    grid: {color: color('line'), borderColor: color('line')},
    ticks: {
      color: color('quiet'), maxTicksLimit: 9, maxRotation: 0,
      callback: value => axis.log && !round(value) ? '' : measured(value, axis.unit),
    },
  }, extra);
}

// Lines from the low to the high end of each value's interval, and one where nothing changes.
const intervals = {
  id: 'intervals',
  afterDatasetsDraw(chart, _, options) {
    const context = chart.ctx;
    const {left, right, top, bottom} = chart.chartArea;
    context.save();
    context.beginPath();
    context.rect(left, top, right - left, bottom - top);
    context.clip();
    if (options.one !== undefined && options.one !== null) {
      const x = chart.scales.x.getPixelForValue(options.one);
      context.strokeStyle = color('quiet');
      context.setLineDash([4, 4]);
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, bottom);
      context.stroke();
      context.setLineDash([]);
    }
    chart.data.datasets.forEach((dataset, index) => {
      if (!dataset.error || !chart.isDatasetVisible(index)) return;
      context.strokeStyle = dataset.flat ? color('ink') : dataset.borderColor;
      context.lineWidth = 1.5;
      chart.getDatasetMeta(index).data.forEach((element, i) => {
        if (!dataset.error[i]) return;
        const axis = dataset.flat ? chart.scales.x : chart.scales.y;
        const [low, high] = dataset.error[i].map(value => axis.getPixelForValue(value));
        context.beginPath();
        if (dataset.flat) {
          context.moveTo(low, element.y);
          context.lineTo(high, element.y);
          for (const x of [low, high]) {
            context.moveTo(x, element.y - 4);
            context.lineTo(x, element.y + 4);
          }
        } else {
          context.moveTo(element.x, low);
          context.lineTo(element.x, high);
          for (const y of [low, high]) {
            context.moveTo(element.x - 4, y);
            context.lineTo(element.x + 4, y);
          }
        }
        context.stroke();
      });
    });
    context.restore();
  },
};

function options(spec, more) {
  return Object.assign({
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    interaction: {mode: 'nearest', intersect: false},
  }, more, {
    plugins: Object.assign({
      legend: {
        display: Boolean(spec.series && spec.series.length > 1),
        align: 'start',
        labels: {color: color('ink'), usePointStyle: true, boxHeight: 7},
      },
      intervals: {one: spec.one},
    }, more.plugins),
  });
}

// A label in lines of at most `most` characters, but for words that are longer.
function broken(label, most) {
  const parts = [''];
  for (const word of label.split(' ')) {
    const last = parts[parts.length - 1];
    if (last && last.length + 1 + word.length > most) parts.push(word);
    else parts[parts.length - 1] = last ? `${last} ${word}` : word;
  }
  return parts;
}

function bars(spec) {
  const waterfall = spec.type === 'waterfall';
  const high = Math.max(1, ...spec.bars.map(bar => bar.high ?? bar.value)) * 1.05;
  const low = spec.x.log ? Math.min(1, ...spec.bars.map(bar => bar.low ?? bar.value)) * 0.9 : 0;
  return {
    type: 'bar',
    data: {
      labels: spec.labels,
      datasets: [{
        flat: true,
        data: spec.bars.map(bar => waterfall ? [bar.from, bar.to]
          : spec.x.log ? [1, bar.value] : bar.value),
        error: spec.bars.map(bar => bar.low === undefined ? null : [bar.low, bar.high]),
        backgroundColor: spec.bars.map(bar => color(bar.kind || 'gain')),
        barPercentage: 0.75,
        categoryPercentage: 0.9,
        minBarLength: 2,
      }],
    },
    options: options(spec, {
      indexAxis: 'y',
      scales: {
        x: scale(spec.x, spec.x.log ? {min: low, max: high} : {}),
        y: {grid: {display: false}, ticks: {color: color('ink'), autoSkip: false,
          callback(value) {
            return broken(this.getLabelForValue(value), this.chart.width < 500 ? 22 : 60);
          }}},
      },
      plugins: {tooltip: {callbacks: {label: item => {
        const bar = spec.bars[item.dataIndex];
        if (waterfall) {
          return `${measured(bar.from, spec.x.unit)} to ${measured(bar.to, spec.x.unit)}`;
        }
        const range = bar.low === undefined ? '' : ` (${number(bar.low)} to ${number(bar.high)})`;
        return measured(bar.value, spec.x.unit) + range;
      }}}},
    }),
  };
}

function lines(spec) {
  return {
    type: spec.type === 'dots' ? 'scatter' : 'line',
    data: {
      datasets: spec.series.map((one, i) => ({
        label: one.name,
        data: one.points.map(([x, y]) => ({x, y})),
        error: one.error,
        names: one.names,
        borderColor: palette[i % palette.length],
        backgroundColor: palette[i % palette.length],
        borderDash: one.dashed ? [6, 4] : [],
        borderWidth: 2,
        pointStyle: marks[i % marks.length],
        pointRadius: one.line || one.points.length > 40 ? 0 : 4,
        pointHitRadius: 8,
        showLine: spec.type !== 'dots' || Boolean(one.line),
        stepped: Boolean(one.stepped),
        spanGaps: false,
        tension: 0,
      })),
    },
    options: options(spec, {
      parsing: false,
      scales: {x: scale(spec.x, {type: spec.x.log ? 'logarithmic' : 'linear'}),
        y: scale(spec.y, {})},
      plugins: {tooltip: {callbacks: {
        title: () => '',
        label: item => {
          const names = item.dataset.names;
          const name = names ? names[item.dataIndex] : item.dataset.label;
          return `${name}: ${measured(item.parsed.x, spec.x.unit)}, ` +
            measured(item.parsed.y, spec.y.unit);
        },
      }}},
    }),
  };
}

Chart.register(intervals);
Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
Chart.defaults.font.size = 13;

const charts = [];
function draw() {
  charts.splice(0).forEach(chart => chart.destroy());
  for (const canvas of document.querySelectorAll('canvas[data-chart]')) {
    const spec = JSON.parse(canvas.dataset.chart);
    const config = spec.type === 'bars' || spec.type === 'waterfall' ? bars(spec) : lines(spec);
    charts.push(new Chart(canvas, config));
  }
}
draw();
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
addEventListener('beforeprint', () => {
  document.querySelectorAll('details').forEach(details => { details.open = true; });
  charts.forEach(chart => chart.resize());
});

package server

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/reelhouse/reelhouse/catalog"
)

// metrics are what the server counts, in a registry of its own.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	running  prometheus.Gauge
	chunks   prometheus.Counter
	bytes    prometheus.Counter
	received prometheus.Counter
}

func newMetrics(c *catalog.Catalog) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "reel_calls_total", Help: "Calls that have ended, by method and status code."}, []string{"method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "reel_call_seconds", Help: "Time that calls took, by method.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10)}, []string{"method"}),
		running:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "reel_calls_running", Help: "Calls that are being answered."}),
		chunks:   prometheus.NewCounter(prometheus.CounterOpts{Name: "reel_fetched_chunks_total", Help: "Chunks sent to clients."}),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "reel_fetched_bytes_total", Help: "Bytes of chunks sent to clients."}),
		received: prometheus.NewCounter(prometheus.CounterOpts{Name: "reel_live_messages_total", Help: "Messages received from live streams."}),
	}
	count := func(name, help string, value func(catalog.Stats) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value(c.Stats())) })
	}
	m.registry.MustRegister(m.calls, m.seconds, m.running, m.chunks, m.bytes, m.received,
		count("reel_datasets", "Data sets, without those of blueprints and assets.", func(s catalog.Stats) int { return s.Datasets }),
		count("reel_layers", "Registered layers of segments.", func(s catalog.Stats) int { return s.Layers }),
		count("reel_open_files", "Recordings that are open for reading.", func(s catalog.Stats) int { return s.OpenFiles }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) ended(procedure, code string, took time.Duration) {
	method := procedure[strings.LastIndexByte(procedure, '/')+1:]
	m.calls.WithLabelValues(method, code).Inc()
	m.seconds.WithLabelValues(method).Observe(took.Seconds())
}

package transport

import (
	"context"
	"time"
)

// The interfaces below are optional for a [Worker]. The runtime looks for each
// once, when the worker is made.

// Waiter is a worker that can give its core away while there is nothing to
// poll.
type Waiter interface {
	// Wait blocks until Poll may have something, Wake is called, or timeout
	// has passed, whichever is first; it may return early for no reason. A
	// Wake or an arrival since the last Poll makes it return at once.
	Wait(timeout time.Duration) error
	// Wake ends the current or next Wait. Any thread may call it.
	Wake()
}

// StatsReader is a worker that counts. The names are the transport's own, and
// the values only grow.
type StatsReader interface {
	// ReadStats appends the worker's counters to dst. It runs on the worker's
	// thread, outside of measured windows.
	ReadStats(dst []Stat) []Stat
}

// Stat is one counter.
type Stat struct {
	Name  string `json:"name"`
	Help  string `json:"help"`
	Value uint64 `json:"value"`
}

// DeviceReader is a worker that leaves payloads in device memory.
type DeviceReader interface {
	// ReadDevice copies the first len(into) bytes of a payload, at most its Size,
	// from device memory; peer and offset are those of its event. It blocks, and is
	// for the time outside of measured windows, on the worker's thread.
	//
	// Device memory is used again later than the host's: a payload can be read
	// until the next Poll, and for as long after it as there is no error and
	// there says so.
	ReadDevice(peer PeerID, offset uint64, into []byte) (there bool, err error)
}

// Tracer is a worker that can tell how it did in the course of a window.
type Tracer interface {
	// BeginTrace has the worker note from now on, for about d, how it does in each of
	// so many equal parts of that time. It runs on the worker's thread, right before a
	// measured window, and may allocate.
	BeginTrace(parts int, d time.Duration)
	// ReadTrace appends what was noted since the last BeginTrace to dst. It runs on the
	// worker's thread, outside of measured windows.
	ReadTrace(dst []Series) []Series
}

// Series is a quantity in the course of a window.
type Series struct {
	Name string `json:"name"`
	Help string `json:"help"`
	// Remedy is set for what holds the worker up, and says what would make it less; the
	// values are shares of time then.
	Remedy string `json:"remedy,omitempty"`
	// Values are one for each part of the window, in order.
	Values []float64 `json:"values"`
}

// Prober is a worker that can measure its floor: the least that its medium can
// cost between the two threads, with no harness and no protocol.
type Prober interface {
	// Probe measures against peer for about d. Both sides call it at about
	// the same time, one with initiate true; that side gets the reading, and
	// the other a zero Floor. No call is in flight meanwhile. It gives up
	// when ctx ends, so that a peer that does not take part costs no more.
	Probe(ctx context.Context, peer PeerID, initiate bool, d time.Duration) (Floor, error)
}

// Floor is a reading of a [Prober].
type Floor struct {
	// Name says what was measured ("cache-line bounce", "raw UDP ping-pong").
	Name string `json:"name"`
	// RoundTrip is the median round trip in nanoseconds.
	RoundTrip float64 `json:"round_trip_ns"`
	// Bandwidth is in bytes per second; 0 where the probe does not stream.
	Bandwidth float64 `json:"bandwidth,omitempty"`
	// Rate is round trips of small messages per second, with many in flight; 0
	// where the probe does not measure it.
	Rate float64 `json:"rate,omitempty"`
	// Samples is the number of round trips behind the median.
	Samples int `json:"samples"`
}

// Microbenchmarker is a [Driver] that can measure its medium piece by piece, without
// the transport on top: what an operation of the device, the kernel or the library
// costs by itself.
type Microbenchmarker interface {
	// Microbenchmarks lists the names of the measurements.
	Microbenchmarks() []string
	// Microbenchmark takes those that wanted says yes to, about d each, with the
	// transport's options, and reports each as it is there. It blocks, and ends
	// early when ctx does.
	Microbenchmark(ctx context.Context, options Values, wanted func(name string) bool, d time.Duration, report func(Measurement) error) error
}

// Measurement is a reading of a [Microbenchmarker]. What it does not measure is 0.
type Measurement struct {
	Name      string  `json:"name"`
	Size      int     `json:"size"`                 // bytes of a message
	Latency   float64 `json:"latency_ns,omitempty"` // median
	Rate      float64 `json:"rate,omitempty"`       // messages per second
	Bandwidth float64 `json:"bandwidth,omitempty"`  // bytes per second
	Samples   int     `json:"samples"`
}

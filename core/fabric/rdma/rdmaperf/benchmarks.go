package rdmaperf

import (
	"fmt"
	"strconv"

	"transportbench/core/fabric/rdma"
)

// benchmark is one measurement. Numbers that are 0 have the defaults of [benchmark.complete].
type benchmark struct {
	name    string
	variant string // behind the name, where the measurement has several readings
	opcode  rdma.Opcode
	kind    rdma.QueuePairType
	size    int
	latency bool // ping-pong; otherwise a stream

	postlist int         // requests per doorbell
	signal   int         // every nth request is signaled, at least one of each doorbell
	pairs    int         // queue pairs of the one thread
	depth    int         // of each send queue
	inline   int         // payloads of up to this many bytes go inline; noInline for none
	access   rdma.Access // to memory, besides the rights

	baseline string // name of the reading that this one compares with
	optional bool   // a device may refuse it
	options  Options
}

const (
	small    = 32 // bytes of a small message
	word     = 8  // bytes of an atomic operation
	noInline = -1
)

// reading returns the name of the reading.
func (b benchmark) reading() string {
	if b.variant == "" {
		return b.name
	}
	return b.name + "/" + b.variant
}

// atomic reports whether the operations are atomic ones.
func (b benchmark) atomic() bool {
	return b.opcode == rdma.FetchAdd || b.opcode == rdma.CompareSwap
}

// fetches reports whether an operation is complete when its answer has come, without the responder.
func (b benchmark) fetches() bool { return b.opcode == rdma.Read || b.atomic() }

// consumes reports whether a message consumes a receive.
func (b benchmark) consumes() bool {
	return b.opcode == rdma.Send || b.opcode == rdma.WriteWithImmediate
}

// complete fills in what the options say.
func (b benchmark) complete(o Options) benchmark {
	b.options = o
	for _, d := range []struct {
		value    *int
		standard int
	}{{&b.postlist, o.Postlist}, {&b.signal, 1}, {&b.pairs, 1}, {&b.depth, o.Depth},
		{&b.inline, o.Inline}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	b.inline = max(b.inline, 0)
	return b
}

func benchmarks() (list []benchmark) {
	rc := []struct {
		name   string
		opcode rdma.Opcode
	}{{"write", rdma.Write}, {"write-imm", rdma.WriteWithImmediate}, {"send", rdma.Send},
		{"read", rdma.Read}}
	connected := func(name string, opcode rdma.Opcode) benchmark {
		return benchmark{name: name, opcode: opcode, kind: rdma.ReliableConnected, size: small,
			postlist: 1}
	}
	add := func(b benchmark, change ...func(*benchmark)) {
		for _, c := range change {
			c(&b)
		}
		list = append(list, b)
	}
	latency := func(b *benchmark) { b.latency = true }
	many := func(b *benchmark) { b.postlist = 0 }
	datagrams := func(b *benchmark) { b.kind = rdma.UnreliableDatagram }
	size := func(n int) func(*benchmark) { return func(b *benchmark) { b.size = n } }

	for _, k := range rc {
		add(connected(k.name+"-latency", k.opcode), latency)
	}
	add(connected("ud-send-latency", rdma.Send), latency, datagrams)
	for _, k := range rc {
		add(connected(k.name+"-rate", k.opcode))
		add(connected(k.name+"-rate-postlist", k.opcode), many)
	}
	add(connected("ud-send-rate", rdma.Send), datagrams)
	add(connected("ud-send-rate-postlist", rdma.Send), datagrams, many)
	for _, k := range rc {
		for _, n := range []int{4 << 10, 64 << 10, 1 << 20} {
			add(connected(k.name+"-bandwidth", k.opcode), many, size(n))
		}
	}
	for _, k := range []struct {
		name   string
		opcode rdma.Opcode
	}{{"fetch-add", rdma.FetchAdd}, {"compare-swap", rdma.CompareSwap}} {
		optional := func(b *benchmark) { b.optional = true }
		add(connected(k.name+"-latency", k.opcode), latency, size(word), optional)
		add(connected(k.name+"-rate", k.opcode), size(word), optional)
	}
	dynamic := func(b *benchmark) { b.kind, b.optional = rdma.DynamicallyConnected, true }
	add(connected("dc-write-latency", rdma.Write), latency, dynamic)
	add(connected("dc-write-rate", rdma.Write), dynamic)
	return append(list, variants(connected)...)
}

// Depths of the measurements whose readings differ in one setting, which depend on no option.
const (
	signalDepth = 128
	pairsDepth  = 256
)

// variants returns the measurements that vary one setting of a WRITE. The first reading of each is
// the baseline of the others.
func variants(connected func(string, rdma.Opcode) benchmark) (list []benchmark) {
	add := func(b benchmark, variant, baseline string) {
		if b.variant = variant; variant != baseline {
			b.baseline = b.name + "/" + baseline
		}
		list = append(list, b)
	}
	b := connected("write-inline", rdma.Write)
	b.depth = signalDepth
	for _, b.latency = range []bool{true, false} {
		quantity := "rate"
		if b.latency {
			quantity = "latency"
		}
		b.inline = noInline
		add(b, "off/"+quantity, "off/"+quantity)
		b.inline = small
		add(b, "on/"+quantity, "off/"+quantity)
	}
	b = connected("write-signal", rdma.Write)
	b.depth = signalDepth
	for _, b.signal = range []int{1, 4, 16, signalDepth / 2} {
		add(b, strconv.Itoa(b.signal), "1")
	}
	b = connected("write-pairs", rdma.Write)
	b.signal = 16
	for _, shape := range []struct{ pairs, depth int }{{1, 32}, {1, pairsDepth}, {8, 32},
		{8, pairsDepth}} {
		b.pairs, b.depth = shape.pairs, shape.depth
		add(b, fmt.Sprintf("%dx%d", b.pairs, b.depth), "1x32")
	}
	b = connected("relaxed-ordering", rdma.Write)
	b.size, b.postlist = 64<<10, 0
	add(b, "off", "off")
	b.access, b.optional = rdma.RelaxedOrdering, true
	add(b, "on", "off")
	return list
}

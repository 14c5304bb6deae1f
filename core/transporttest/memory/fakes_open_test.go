package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"transportbench/core/transport"
)

func fakes() []fake {
	return slices.Concat(openFakes, connectFakes, closeFakes, waitFakes, optionalFakes,
		echoFakes, postFakes, flowFakes, pollFakes, callFakes, threadFakes, peerFakes, deviceFakes,
		allocFakes)
}

var errFault = errors.New("fault")

// leakFile opens a descriptor that stays open until the end of the test.
func (d *fakeDriver) leakFile() {
	f, err := os.Open(os.DevNull)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.atEnd = append(d.atEnd, func() { f.Close() })
}

var openFakes = []fake{
	{name: "has a name in capitals", clause: "info/names", says: "the name",
		info: func(_ *fakeDriver, info *transport.Info) { info.Name = "Memory" }},
	{name: "does not say when to choose it", clause: "info/names", says: "when to choose it",
		info: func(_ *fakeDriver, info *transport.Info) { info.Choose = " " }},
	{name: "needs what no list has", clause: "info/names", says: "the groups",
		info: func(_ *fakeDriver, info *transport.Info) {
			info.Groups = []transport.Group{"FPGA"}
		}},
	{name: "changes its Info each time", clause: "info/names", says: "the second Info",
		info: func(d *fakeDriver, info *transport.Info) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.opened++
			info.Version = fmt.Sprint(d.opened)
		}},
	{name: "has an option without help", clause: "info/options", says: "the help of option",
		info: func(_ *fakeDriver, info *transport.Info) { info.Options[0].Help = " " }},
	{name: "has an option twice", clause: "info/options", says: "is declared twice",
		info: func(_ *fakeDriver, info *transport.Info) {
			info.Options = append(info.Options, info.Options[0])
		}},
	{name: "takes no peers", clause: "info/limits", says: "Peers",
		info: func(_ *fakeDriver, info *transport.Info) { info.Limits.Peers = 0 }},
	{name: "has an inline size over its limit", clause: "info/limits",
		says: "InlineSize, of MaxPayload",
		info: func(_ *fakeDriver, info *transport.Info) {
			info.Limits.InlineSize = info.Limits.MaxPayload + 1
		}},
	{name: "opens a device in Info", clause: "info/touches-nothing", says: "descriptors leaked",
		info: func(d *fakeDriver, _ *transport.Info) { d.leakFile() }},

	{name: "closes all ranks with one", clause: "open/twice", says: "closed",
		transport: func(t *fakeTransport) {
			t.close = func() error {
				for _, other := range t.driver.transports {
					other.endpoint.Close()
				}
				return nil
			}
		}},
	{name: "opens only once in a process", clause: "open/twice", says: "Open of rank 1",
		open: failAfter(2)},
	{name: "can be opened 64 times", clause: "open/again", says: "Open of rank",
		open: failAfter(64)},
	{name: "opens another provider", clause: "open/properties", says: "Properties.Provider",
		properties: func(p *transport.Properties) { p.Provider = "other" }},
	{name: "opens with lower limits than the configuration", clause: "open/properties",
		says:       "Limits.MaxPayload",
		properties: func(p *transport.Properties) { p.Limits.MaxPayload = 100 }},
	{name: "takes the configured peers for its limit", clause: "open/properties",
		says:       "not Config.Peers",
		properties: func(p *transport.Properties) { p.Limits.Peers = 1 }},
	{name: "does not say what auto took", clause: "open/chosen", says: "of an option that is auto",
		info: func(_ *fakeDriver, info *transport.Info) {
			info.Options = append(info.Options,
				transport.Option{Name: "medium", Type: transport.TypeString, Default: "auto",
					Help: "of the bytes"})
		}},
	{name: "has a role for an option that it lacks", clause: "info/roles",
		says: "there is no option",
		info: func(_ *fakeDriver, info *transport.Info) { info.Roles.Address = "addrss" }},
	{name: "has a role for an option of another type", clause: "info/roles", says: "is of type",
		info: func(_ *fakeDriver, info *transport.Info) { info.Roles.Device = "ring-size" }},
	{name: "imitates half of a network", clause: "info/roles", says: "imitate a network together",
		info: func(_ *fakeDriver, info *transport.Info) {
			info.Options = append(info.Options,
				transport.Option{Name: "drop", Type: transport.TypeInt, Default: "0",
					Help: "faults"})
			info.Roles.Drop = "drop"
		}},
	{name: "matches with an option that it lacks", clause: "info/roles", says: "Info.Matched",
		info: func(_ *fakeDriver, info *transport.Info) {
			info.Matched = map[string]string{"checksum": "off"}
		}},
	{name: "declares a reference without a figure", clause: "info/references",
		says: `has no group "value"`,
		info: func(_ *fakeDriver, info *transport.Info) {
			info.References = []transport.Reference{{Tool: "ping", Reading: "time=(.*) ms"}}
		}},
	{name: "has no value for a placeholder", clause: "info/references",
		says: "lacks a placeholder of reference ping",
		info: func(_ *fakeDriver, info *transport.Info) {
			info.References = []transport.Reference{{Tool: "ping", Package: "iputils-ping",
				Version: []string{"ping", "-V"}, Name: "ping", Depth: transport.DepthOne,
				Client: []string{"{nowhere}"}, Server: []string{}, Takes: time.Second,
				Reading:  "time=(?P<value>.*) ms (?P<samples>.*)",
				Quantity: transport.HalfRoundTrip, Unit: 1e6}}
		}},
	{name: "gives a value that no reference uses", clause: "info/references",
		says:       "no reference uses",
		properties: func(p *transport.Properties) { p.Reference = map[string]string{"lane": "x"} }},
	{name: "says that auto took auto", clause: "open/chosen", says: "of option",
		properties: func(p *transport.Properties) {
			p.Chosen = map[string]string{"ring-size": "auto"}
		}},
	{name: "says what it took for an option that it lacks", clause: "open/chosen",
		says:       "an option in Properties.Chosen",
		properties: func(p *transport.Properties) { p.Chosen = map[string]string{"rnig": "fast"} }},
	{name: "does not say what it checks", clause: "open/chosen", says: "Properties.Integrity",
		properties: func(p *transport.Properties) { p.Integrity = "" }},
	{name: "declares Waits but does not implement it", clause: "open/capabilities",
		says:  "implements Waiter",
		shape: func(w transport.Worker) transport.Worker { return struct{ transport.Worker }{w} }},
	{name: "declares Traces but does not implement it", clause: "open/capabilities",
		says: "does not implement Recorder",
		info: declareTraces, properties: func(p *transport.Properties) {
			p.Capabilities.Traces = true
		},
		shape: func(w transport.Worker) transport.Worker {
			return struct {
				transport.Worker
				transport.Waiter
			}{w, w.(transport.Waiter)}
		}},
	{name: "implements Waiter but does not declare it", clause: "open/capabilities",
		says:       "implements Waiter",
		info:       func(_ *fakeDriver, info *transport.Info) { info.Capabilities.Waits = false },
		properties: func(p *transport.Properties) { p.Capabilities.Waits = false }},
	{name: "does not keep a capability of Info", clause: "open/capabilities",
		says:       "against Info's",
		properties: func(p *transport.Properties) { p.Capabilities.Ordered = false }},
	{name: "makes workers in one order only", clause: "open/worker-indices", says: "NewWorker(2)",
		transport: func(t *fakeTransport) {
			next := 0
			t.newWorker = func(index int) (transport.Worker, error) {
				if index != next {
					return nil, errFault
				}
				next++
				return t.endpoint.NewWorker(index)
			}
		}},
	{name: "has one address for all workers", clause: "open/worker-indices",
		says:   "the addresses of two workers",
		worker: func(w *fakeWorker) { w.address = func() []byte { return make([]byte, 8) } }},
	{name: "has a new address each time", clause: "open/address",
		says: "the address asked for again",
		worker: func(w *fakeWorker) {
			calls := byte(0)
			w.address = func() []byte {
				calls++
				return append(slices.Clone(w.worker.Address()), calls)
			}
			w.connect = func(ctx context.Context, peer transport.PeerID, address []byte) error {
				return w.worker.Connect(ctx, peer, address[:8])
			}
		}},
}

// failAfter fails to open after a number of openings, of which one is the survey of the suite.
func failAfter(openings int) func(*fakeDriver) error {
	return func(d *fakeDriver) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.opened > openings {
			return errFault
		}
		return nil
	}
}

// discard drops the messages that have arrived on a connection.
func (c *connection) discard() {
	for {
		if _, _, _, ok := c.receive.pop(); !ok {
			c.receive.release()
			return
		}
	}
}

// isConnected reports whether the worker with this number has connected to w.
func (w *fakeWorker) isConnected(number uint64) bool {
	for _, other := range w.driver.workers {
		if other.number == number {
			for _, c := range other.active {
				if c.remote == w.worker {
					return true
				}
			}
		}
	}
	return false
}

var connectFakes = []fake{
	{name: "requires the older worker to connect first", clause: "connect/either-order",
		says: "Connect to",
		worker: func(w *fakeWorker) {
			w.connect = func(ctx context.Context, peer transport.PeerID, address []byte) error {
				number := binary.LittleEndian.Uint64(address)
				if number < w.number && !w.isConnected(number) {
					return errFault
				}
				return w.worker.Connect(ctx, peer, address)
			}
		}},
	{name: "requires the younger worker to connect first", clause: "connect/either-order",
		says: "Connect to",
		worker: func(w *fakeWorker) {
			w.connect = func(ctx context.Context, peer transport.PeerID, address []byte) error {
				number := binary.LittleEndian.Uint64(address)
				if number > w.number && !w.isConnected(number) {
					return errFault
				}
				return w.worker.Connect(ctx, peer, address)
			}
		}},
	{name: "waits for the peer to connect", clause: "connect/does-not-wait", says: "did not return",
		hangs: true,
		worker: func(w *fakeWorker) {
			w.connect = func(ctx context.Context, peer transport.PeerID, address []byte) error {
				if !w.isConnected(binary.LittleEndian.Uint64(address)) {
					w.driver.hang()
				}
				return w.worker.Connect(ctx, peer, address)
			}
		}},
	{name: "drops messages from before Connect", clause: "connect/call-before-peer",
		says: "the responses to all calls", hangs: true,
		worker: func(w *fakeWorker) {
			w.connect = func(ctx context.Context, peer transport.PeerID, address []byte) error {
				err := w.worker.Connect(ctx, peer, address)
				w.connection(peer).discard()
				return err
			}
		}},
	{name: "refuses calls before the peer's Connect", clause: "connect/call-before-peer",
		says: "Post before the peer's Connect",
		worker: func(w *fakeWorker) {
			w.post = func(ops []transport.Op) (int, error) {
				if !w.isConnected(w.connection(ops[0].Peer).remote.number) {
					return 0, w.connection(ops[0].Peer).errs.Down
				}
				return w.worker.Post(ops)
			}
		}},
	{name: "drops all connections' messages in Connect", clause: "connect/late",
		says: "the responses to all calls", hangs: true,
		worker: func(w *fakeWorker) {
			w.connect = func(ctx context.Context, peer transport.PeerID, address []byte) error {
				for _, c := range w.active {
					c.discard()
				}
				return w.worker.Connect(ctx, peer, address)
			}
		}},
	{name: "numbers peers in the order of Connect", clause: "connect/numbers", says: "peer",
		worker: func(w *fakeWorker) {
			w.editEvents(func(e *transport.Event) {
				e.Peer = transport.PeerID(slices.Index(w.active, w.connection(e.Peer)))
			})
		}},
	{name: "swaps two peers", clause: "connect/numbers", says: "peer",
		worker: func(w *fakeWorker) {
			w.editOps(func(ops []transport.Op) {
				for i := range ops {
					if ops[i].Kind == transport.OpCall && ops[i].Peer < 2 {
						ops[i].Peer ^= 1
					}
				}
			})
		}},
	{name: "has room for 16 peers", clause: "connect/many", says: "Connect to",
		worker: func(w *fakeWorker) { w.limits.Peers = 16 }},
}

func declareTraces(_ *fakeDriver, info *transport.Info) { info.Capabilities.Traces = true }

package erpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	"transportbench/core"
	"transportbench/core/fabric/clock"
	"transportbench/core/fabric/control"
	"transportbench/core/fabric/datagram"
	"transportbench/core/fabric/rdma/perftest"
	"transportbench/core/transport"
)

const name = control.Name("erpc")

// Driver opens the erpc transport.
type Driver struct{}

var _ transport.Driver = Driver{}

// capabilities are the same for all providers.
var capabilities = transport.Capabilities{Waits: true, TellsPeerLost: true}

// Info implements [transport.Driver].
func (Driver) Info() transport.Info {
	return transport.Info{
		Name: string(name), Version: core.Version,
		Summary: "eRPC's protocol over unreliable datagrams: kernel UDP, or UD queue pairs",
		Choose: "for small calls to many peers: connections take no memory of the NIC, and " +
			"kernel UDP suffices",
		Groups: []transport.Group{transport.GroupRDMA, transport.GroupSockets,
			transport.GroupMemory},
		Providers:    []string{providerUDP, providerVerbs, providerSoft},
		Capabilities: capabilities,
		Limits: transport.Limits{MaxPayload: maxMessage, InFlight: maxInFlight,
			Peers: maxPeers},
		Needs:      transport.Needs{WorkerFiles: 6, WorkerMemory: 4 << 20},
		Matched:    map[string]string{"checksum": checkHeader},
		Options:    schema,
		References: perftest.References("ib_send", "--connection=UD"),
		Roles: transport.Roles{Provider: "provider", Device: "device", Address: "address",
			Drop: "fault-drop", Reorder: "fault-reorder", Delay: "fault-delay",
			DelayBy: "fault-delay-by"},
		PerPacket: map[string]string{"offload": "off"},
	}
}

// Open implements [transport.Driver].
func (Driver) Open(_ context.Context, cfg transport.Config) (transport.Transport, error) {
	s, err := resolve(cfg)
	if err != nil {
		return nil, name.Error("open", err)
	}
	e := &endpoint{settings: s, workers: control.NewWorkers[*worker](name, cfg.Workers)}
	if err := e.open(); err != nil {
		return nil, name.Error("open", errors.Join(err, e.Close()))
	}
	if s.auto != "" && cfg.Logger != nil {
		cfg.Logger.Info("erpc: took provider " + s.auto)
	}
	return e, nil
}

// endpoint is the transport of one rank.
type endpoint struct {
	settings  settings
	ports     *portFactory
	notes     map[string]string // of the heartbeat's port
	maxData   int               // bytes of data in a packet
	heartbeat *heartbeat
	workers   *control.Workers[*worker]
}

func (e *endpoint) open() error {
	s := &e.settings
	var err error
	if e.ports, err = openPorts(s); err != nil {
		return err
	}
	port, err := e.ports.open(heartbeatPort)
	if err != nil {
		return err
	}
	e.heartbeat = newHeartbeat(port, s.keepalive, s.maxMissed)
	e.maxData = port.MTU() - headerSize
	e.notes = port.Notes()
	switch {
	case port.MTU() < minMTU:
		return badMTU(port.MTU())
	case packetsOf(s.payload, e.maxData) > maxPackets:
		return fmt.Errorf(
			"%w: a payload of %d bytes takes more than %d packets of %d bytes; raise mtu",
			transport.ErrTooLarge, s.payload, maxPackets, e.maxData)
	}
	return s.checkMemory(e.ports.credits(), e.maxData)
}

// Properties implements [transport.Transport].
func (e *endpoint) Properties() transport.Properties {
	s := &e.settings
	p := transport.Properties{Provider: s.provider, Medium: media[s.provider],
		Capabilities: capabilities, Limits: s.limits(e.maxData),
		Libraries: e.ports.libraries(), Notes: maps.Clone(e.notes)}
	p.Notes["credits"] = fmt.Sprintf("%d of %d", e.ports.credits(), s.credits)
	if s.timely {
		c := &s.congestion
		p.Notes["timely"] = fmt.Sprintf(
			"link %.0f B/s, least %.0f, step %.0f; round trips %.0f us to %.0f us, least %.0f us",
			c.linkRate, c.minRate, c.step, c.low/1e3, c.high/1e3, c.minRTT/1e3)
	}
	p.Chosen = map[string]string{}
	if s.auto != "" {
		p.Notes[transport.NoteAuto] = s.auto
		p.Chosen["provider"] = s.provider
	}
	if s.udp.Offload == datagram.OffloadAuto {
		p.Chosen["offload"] = cmp.Or(p.Notes["offload"], "off") // only UDP has any
	}
	p.Integrity = "CRC-32 of headers"
	if s.checkAll {
		p.Integrity = "CRC-32 of headers and payloads"
	}
	if s.provider == providerVerbs {
		p.Integrity += ", and the device's checksum of each packet (ICRC)"
		p.Uncounted = "libibverbs"
		p.Reference = perftest.Device(e.ports.device.Attributes().Path())
	}
	return p
}

// ReadStats implements [transport.StatsReader]. UDP registers nothing.
func (e *endpoint) ReadStats(dst []transport.Stat) []transport.Stat {
	if e.ports.device == nil {
		return dst
	}
	return e.ports.device.ReadStats(dst)
}

// NewWorker implements [transport.Transport].
func (e *endpoint) NewWorker(index int) (transport.Worker, error) {
	return e.workers.New(index, func() (*worker, error) {
		port, err := e.ports.open(index)
		if err != nil {
			return nil, err
		}
		w, err := newWorker(&e.settings, port, e.heartbeat, e.ports.credits(), clock.Now)
		if err != nil {
			return nil, errors.Join(err, port.Close())
		}
		w.ports = e.ports
		return w, nil
	})
}

// Close implements [transport.Transport].
func (e *endpoint) Close() error {
	return e.workers.Close(func(workers []*worker) error {
		errs := []error{control.Each(workers,
			func(w *worker) error { return errors.Join(w.Close(), w.release()) })}
		if e.heartbeat != nil {
			errs = append(errs, e.heartbeat.close())
		}
		if e.ports != nil {
			errs = append(errs, e.ports.close())
		}
		return errors.Join(errs...)
	})
}

package shmperf

import (
	"encoding/binary"
	"fmt"
	"time"

	"transportbench/core/fabric/floor"
	"transportbench/core/fabric/shm"
	"transportbench/core/transport"
)

const (
	// The words of a transfer, from the start of the body; the payload follows.
	sentOffset    = 0   // u64: transfers that node 0 has made
	takenOffset   = 128 // u64: transfers that node 1 has taken
	payloadOffset = 4096

	transferMemcpy = "transfer/memcpy"
)

// A transferMode is what the nodes copy. Without copies, the payload is handed over by reference.
type transferMode struct {
	name        string
	in, out     bool
	nontemporal bool
}

var transferModes = []transferMode{
	{name: "copy-in", in: true},
	{name: "copy-in-nontemporal", in: true, nontemporal: true},
	{name: "copy-out", out: true},
	{name: "copy-out-nontemporal", out: true, nontemporal: true},
	{name: "copy-in-out", in: true, out: true},
	{name: "reference"},
}

func (m *transferMode) copy(dst, src []byte) {
	if m.nontemporal {
		copyAround(dst, src)
	} else {
		copy(dst, src)
	}
}

// transfer measures payloads between processes, beside copies and reads of private memory.
func (b *bench) transfer() error {
	if err := b.checkHugePages("transfer"); err != nil {
		return err
	}
	for _, size := range b.Transfers {
		if err := b.privateMemory(size); err != nil {
			return err
		}
		for _, huge := range []bool{false, true} {
			if free := freeHugePages(); huge && free*hugePage < size+2*hugePage {
				if free > 0 {
					err := b.report(transport.Measurement{Name: "transfer/hugepages", Size: size,
						Note: fmt.Sprintf("%d MiB do not fit into the %d huge pages that are free",
							size>>20, free)})
					if err != nil {
						return err
					}
				}
				continue
			}
			for _, mode := range transferModes {
				if mode.nontemporal && !nontemporal {
					continue
				}
				name := "transfer/" + mode.name
				if huge {
					name += "/hugepages"
				}
				o, err := b.team(job{Work: "transfer", Variant: mode.name, Nodes: 2, Count: size,
					Body: payloadOffset + size, Huge: huge}, processes)
				if err != nil {
					return fmt.Errorf("%s of %d bytes: %w", name, size, err)
				}
				m := transport.Measurement{Name: name, Size: size, Samples: o.samples,
					Floor: o.floor, Baseline: transferMemcpy}
				m.Latency = floor.Median(o.latencies)
				if m.Latency > 0 && (mode.in || mode.out) { // a reference moves no bytes
					m.Bandwidth = float64(size) / m.Latency * 1e9
				}
				if err := b.report(m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// privateMemory measures copies and reads of a payload in memory of this process.
func (b *bench) privateMemory(size int) error {
	segment, err := shm.Create("transportbench-micro", 2*size, shm.Memfd)
	if err != nil {
		return err
	}
	defer segment.Close()
	src, dst := segment.Bytes()[:size], segment.Bytes()[size:]
	fillPayload(src, 1)
	clear(dst)
	for _, r := range []struct {
		name string
		f    func() error
	}{
		{transferMemcpy, func() error { copy(dst, src); return nil }},
		{"transfer/read", func() error { readLines(src); return nil }},
	} {
		batch := max(1, (64<<10)/size)
		t, err := b.repeat(batch, r.f)
		if err != nil {
			return err
		}
		m := transport.Measurement{Name: r.name, Size: size}
		t.fill(&m, batch)
		m.Bandwidth = float64(size) / m.Latency * 1e9
		if err := b.report(m); err != nil {
			return err
		}
	}
	return checkWhole(dst, 1)
}

// fillPayload fills a payload with words that follow from number.
func fillPayload(p []byte, number uint64) {
	for i := 0; i+8 <= len(p); i += 8 {
		binary.NativeEndian.PutUint64(p[i:], number*0x9e3779b97f4a7c15+uint64(i))
	}
}

// checkWhole returns an error unless a payload is what fillPayload makes of number.
func checkWhole(p []byte, number uint64) error {
	for i := 0; i+8 <= len(p); i += 8 {
		if got, want := binary.NativeEndian.Uint64(p[i:]), number*0x9e3779b97f4a7c15+
			uint64(i); got != want {
			return fmt.Errorf("the payload has %#x at offset %d, want %#x: it was not moved whole",
				got, i, want)
		}
	}
	return nil
}

// stampPayload writes number into the first and the last word of a payload, and checkStamp checks
// it.
func stampPayload(p []byte, number uint64) {
	binary.NativeEndian.PutUint64(p, number)
	binary.NativeEndian.PutUint64(p[len(p)-8:], number)
}

func checkStamp(p []byte, number uint64) error {
	if binary.NativeEndian.Uint64(p) != number ||
		binary.NativeEndian.Uint64(p[len(p)-8:]) != number {
		return fmt.Errorf("the payload of transfer %d has the stamps %d and %d", number,
			binary.NativeEndian.Uint64(p), binary.NativeEndian.Uint64(p[len(p)-8:]))
	}
	return nil
}

// transfers is the work of two nodes: node 0 hands payloads to node 1, and waits until each is
// taken. Of the first one, which is not timed, node 1 checks every word, and of the others the
// stamps.
func (n *node) transfers() error {
	if err := n.measureFloor(); err != nil {
		return err
	}
	var mode transferMode
	for _, m := range transferModes {
		if m.name == n.Variant {
			mode = m
		}
	}
	sent, taken := shm.Word64(n.body, sentOffset), shm.Word64(n.body, takenOffset)
	shared := n.body[payloadOffset:][:n.Count]
	// Off the heap, and aligned.
	private, err := shm.Create("transportbench-micro", n.Count, shm.Memfd)
	if err != nil {
		return err
	}
	defer private.Close()
	own := private.Bytes()
	clear(own)
	if n.Node != 0 {
		for number := uint64(1); ; number++ {
			for sent.Load() < number { // pairs with the store of node 0
				if n.phase.Load() == over {
					return nil
				}
				n.idle()
			}
			n.found()
			at := shared
			if mode.out {
				mode.copy(own, shared)
				at = own
			}
			check := checkStamp
			if number == 1 {
				check = checkWhole
			}
			if err := check(at, number); err != nil {
				return err
			}
			taken.Store(number)
		}
	}
	number := uint64(0)
	return n.window(func() (uint64, error) {
		number++
		began := time.Now()
		source := shared
		if mode.in {
			source = own
		}
		if number == 1 {
			fillPayload(source, 1)
		} else {
			stampPayload(source, number)
		}
		if mode.in {
			mode.copy(shared, own)
		}
		sent.Store(number) // pairs with the load of node 1
		for taken.Load() < number {
			if n.phase.Load() == over {
				return number - 1, nil
			}
			n.idle()
		}
		n.found()
		if n.phase.Load() == measuring {
			n.latencies = append(n.latencies, float64(time.Since(began)))
		}
		return number, nil
	})
}

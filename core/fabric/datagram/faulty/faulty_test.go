package faulty

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/datagram"
	"transportbench/core/transport"
)

const patience = time.Minute

func openUDP(t *testing.T, o datagram.UDPOptions) datagram.Port {
	t.Helper()
	o.Address = netip.MustParseAddrPort("127.0.0.1:0")
	p, err := datagram.OpenUDP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func openTo(t *testing.T, p, other datagram.Port) datagram.Remote {
	t.Helper()
	r, err := p.Open(other.Address())
	require.NoError(t, err)
	return r
}

func counter(p datagram.Port, name string) uint64 {
	return transport.StatValue(p.ReadStats(nil), name)
}

// through sends n datagrams from one faulty port to another and returns those that arrived, in
// order of arrival.
func through(t *testing.T, n int, send, receive Faults) (arrived [][]byte, a, b waitingPort) {
	var x [2]waitingPort
	for i := range x {
		f, err := New(openUDP(t, datagram.UDPOptions{MTU: 1472}), Faults{}, Faults{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		x[i] = f.(waitingPort)
	}
	a, b = x[0], x[1]
	to := openTo(t, a, b)
	openTo(t, b, a)
	require.NoError(t, a.Inject(send, Faults{}))
	require.NoError(t, b.Inject(Faults{}, receive))
	packets := make([]datagram.Packet, 16)
	poll := func() int {
		_, err := a.Receive(packets, datagram.Target{})
		require.NoError(t, err)
		count, err := b.Receive(packets, datagram.Target{})
		require.NoError(t, err)
		for _, p := range packets[:count] {
			arrived = append(arrived, bytes.Clone(p.Data))
		}
		return count
	}
	for i := range n {
		head := make([]byte, 8)
		binary.BigEndian.PutUint64(head, uint64(i))
		require.True(t, a.Send(to, head, bytes.Repeat([]byte{byte(i)}, 24)))
		require.NoError(t, a.Flush())
		poll()
	}
	// Wait until b has received everything that a sent, and nothing is held.
	for deadline := time.Now().Add(patience); ; {
		require.NoError(t, a.Flush())
		if poll() == 0 && len(a.sending.held) == 0 && len(b.receiving.held) == 0 &&
			counter(a, "datagrams_sent") == counter(b, "datagrams_received") {
			break
		}
		require.True(t, time.Now().Before(deadline), "timed out waiting for the last datagrams")
	}
	require.Zero(t, counter(b, "receive_drops"))
	return arrived, a, b
}

const trials = 4000

// share checks that a count is within six sigma of its expected share of the trials.
func share(t *testing.T, count uint64, probability float64, what string) {
	require.InDelta(t, trials*probability, float64(count),
		6*math.Sqrt(trials*probability*(1-probability)), what)
}

func TestFaults(t *testing.T) {
	const p = 0.1
	for name, f := range map[string]Faults{
		"none": {}, "dropped": {Drop: p}, "corrupted": {Corrupt: p}, "duplicated": {Duplicate: p},
		"reordered": {Reorder: p}, "delayed": {Delay: p},
	} {
		for _, direction := range []string{"send", "receive"} {
			t.Run(direction+"-"+name, func(t *testing.T) {
				send, receive := f, Faults{}
				if direction == "receive" {
					send, receive = Faults{}, f
				}
				arrived, a, b := through(t, trials, send, receive)
				port := a
				if direction == "receive" {
					port = b
				}
				hit := uint64(0)
				if name != "none" {
					hit = counter(port, "fault_"+direction+"_"+name)
					share(t, hit, p, name)
				}
				checkFaults(t, name, hit, arrived)
			})
		}
	}
}

// checkFaults checks the datagrams that arrived after a fault hit some of them.
func checkFaults(t *testing.T, name string, hit uint64, arrived [][]byte) {
	whole := map[uint64]int{}
	damaged, late := uint64(0), uint64(0)
	highest := uint64(0)
	for _, data := range arrived {
		require.Len(t, data, 32)
		i := binary.BigEndian.Uint64(data)
		if i >= trials || !bytes.Equal(data[8:], bytes.Repeat([]byte{byte(i)}, 24)) {
			damaged++
			continue
		}
		whole[i]++
		if i < highest {
			late++
		}
		highest = max(highest, i)
	}
	wantArrived, wantDamaged, wantTwice := uint64(trials), uint64(0), uint64(0)
	switch name {
	case "dropped":
		wantArrived -= hit
	case "corrupted":
		wantDamaged = hit
	case "duplicated":
		wantArrived += hit
		wantTwice = hit
	}
	require.EqualValues(t, wantArrived, len(arrived), "datagrams that arrived")
	if name == "corrupted" {
		// The same bit may flip twice, and a number may turn into another one that matches its
		// body.
		require.InDelta(t, float64(wantDamaged), float64(damaged), float64(wantDamaged)/20+3)
		return
	}
	require.Equal(t, wantDamaged, damaged, "corrupted datagrams")
	twice := uint64(0)
	for _, n := range whole {
		require.LessOrEqual(t, n, 2)
		twice += uint64(n) - 1
	}
	require.Equal(t, wantTwice, twice, "datagrams that arrived twice")
	switch name {
	case "reordered":
		require.Greater(t, late, hit/2, "overtaken datagrams")
	case "delayed":
	case "duplicated": // the duplicate may arrive after later ones
	default:
		require.Zero(t, late, "datagrams out of order")
	}
}

func TestFaultsBySeed(t *testing.T) {
	run := func(seed uint64) (all []string) {
		arrived, _, _ := through(t, 300, Faults{Drop: 0.2, Corrupt: 0.2, Seed: seed}, Faults{})
		for _, data := range arrived {
			all = append(all, string(data))
		}
		return all
	}
	first := run(1)
	require.Equal(t, first, run(1))
	require.NotEqual(t, first, run(2))
}

func TestCorruptFlipsBits(t *testing.T) {
	var s direction
	s.inject(Faults{}, 1)
	s.corrupt(nil)
	require.Zero(t, s.counts.corrupted)
	for range 1000 {
		data := make([]byte, 20)
		s.corrupt(data)
		flipped := 0
		for _, b := range data {
			flipped += bits.OnesCount8(b)
		}
		require.LessOrEqual(t, flipped, maxFlips)
	}
	require.EqualValues(t, 1000, s.counts.corrupted)
}

// TestHeld: delayed datagrams leave by time alone, reordered ones also leave if nothing follows,
// and Wait oversleeps neither.
func TestHeld(t *testing.T) {
	for _, f := range []Faults{{Delay: 1}, {Reorder: 1}, {Duplicate: 1, Delay: 1}} {
		for name, sides := range map[string][2]Faults{"send": {f, {}}, "receive": {{}, f}} {
			t.Run(fmt.Sprint(name, f), func(t *testing.T) {
				arrived, _, b := through(t, 1, sides[0], sides[1])
				require.Len(t, arrived, 1+int(f.Duplicate))
				require.NoError(t, b.Wait(time.Millisecond))
			})
		}
	}
}

// TestMaxHeld: when too many datagrams are held the others pass.
func TestMaxHeld(t *testing.T) {
	f, err := newPort(openUDP(t, datagram.UDPOptions{MTU: 100}),
		Faults{Delay: 1, DelayBy: time.Hour}, Faults{})
	require.NoError(t, err)
	defer f.Close()
	b := openUDP(t, datagram.UDPOptions{MTU: 100})
	to := openTo(t, f, b)
	for i := range maxHeld + 1 {
		require.True(t, f.Send(to, []byte{byte(i)}, nil))
	}
	require.NoError(t, f.Flush())
	require.EqualValues(t, 1, counter(f, "fault_send_spared"))
	packets := make([]datagram.Packet, 1)
	for deadline, n := time.Now().Add(patience), 0; n == 0; {
		require.True(t, time.Now().Before(deadline), "waiting for the datagram that passed")
		n, err = b.Receive(packets, datagram.Target{})
		require.NoError(t, err)
	}
	require.EqualValues(t, maxHeld, packets[0].Data[0])
	f.Release(to) // drops what is held for it
	require.Empty(t, f.sending.held)
	require.Len(t, f.sending.free, maxHeld)
}

func TestFaultsRefused(t *testing.T) {
	p := openUDP(t, datagram.UDPOptions{MTU: 100})
	for _, f := range []Faults{{Drop: 1.1}, {Corrupt: -0.1}, {Duplicate: math.NaN()},
		{DelayBy: -1}} {
		_, err := New(p, f, Faults{})
		require.Error(t, err)
		_, err = New(p, Faults{}, f)
		require.Error(t, err)
	}
}

package datagram

import (
	"bytes"
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"transportbench/core/transport"
)

const patience = 60 * time.Second

func openUDP(t *testing.T, o UDPOptions) *UDP {
	if !o.Address.IsValid() {
		o.Address = netip.MustParseAddrPort("127.0.0.1:0")
	}
	p, err := OpenUDP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

func openTo(t *testing.T, p, other Port) Remote {
	r, err := p.Open(other.Address())
	require.NoError(t, err)
	return r
}

func counter(p Port, name string) uint64 {
	stats := p.ReadStats(nil)
	return stats[slices.IndexFunc(stats,
		func(s transport.Stat) bool { return s.Name == name })].Value
}

// receiveUntil passes what arrives to done until that returns true.
func receiveUntil(t *testing.T, p Port, what string, done func(data []byte, source Source) bool) {
	t.Helper()
	packets := make([]Packet, 16)
	for deadline := time.Now().Add(patience); ; {
		n, err := p.Receive(packets, Target{})
		require.NoError(t, err)
		for _, packet := range packets[:n] {
			if done(packet.Data, packet.Source) {
				return
			}
		}
		require.True(t, time.Now().Before(deadline), "timed out waiting for %s", what)
	}
}

func TestUDPRefusesOptions(t *testing.T) {
	here := netip.MustParseAddrPort("127.0.0.1:0")
	taken := openUDP(t, UDPOptions{})
	for want, o := range map[string]UDPOptions{
		"peers cannot send to this address": {Address: netip.MustParseAddrPort(
			"0.0.0.0:0")},
		"use an address of an interface": {},
		"no interface of this host has the address": {Address: netip.MustParseAddrPort(
			"192.0.2.1:0")},
		"address already in use":                  {Address: taken.local},
		"mtu: 70000 is out of range (1 to 65487)": {Address: here, MTU: 70000},
		"batch: -1 is out of range (1 to 1024)":   {Address: here, Batch: -1},
		`offload: "maybe"`:                        {Address: here, Offload: "maybe"},
	} {
		_, err := OpenUDP(o)
		require.ErrorContains(t, err, want)
	}
}

// TestUDPRefusesPeers: Open refuses remotes that can never be reached.
func TestUDPRefusesPeers(t *testing.T) {
	a := openUDP(t, UDPOptions{MTU: 2000})
	b := openUDP(t, UDPOptions{MTU: 1000})
	_, err := a.Open(b.Address())
	require.ErrorContains(t, err, "set mtu to the smaller one on both sides")
	six := udpAddress{addr: netip.MustParseAddrPort("[::1]:9"), mtu: 2000}
	_, err = a.Open(six.encode())
	require.ErrorContains(t, err, "one is IPv4 and the other IPv6")
	nowhere := udpAddress{addr: netip.MustParseAddrPort("255.255.255.255:9"), mtu: 2000}
	_, err = a.Open(nowhere.encode())
	require.ErrorContains(t, err, "no route from")
}

// TestUDPStrangers: what a stranger sends arrives unchanged or not at all, and never with a
// remote's source.
func TestUDPStrangers(t *testing.T) {
	for name, remotes := range map[string]int{"connected": 1, "unconnected": 2} {
		t.Run(name, func(t *testing.T) {
			a := openUDP(t, UDPOptions{MTU: 1472})
			var known []*UDP
			sources := map[Source]bool{}
			for range remotes {
				b := openUDP(t, UDPOptions{MTU: 1472})
				sources[a.Source(openTo(t, a, b))] = true
				known = append(known, b)
			}
			stranger, err := net.Dial("udp", a.local.String())
			require.NoError(t, err)
			defer stranger.Close()
			random := rand.New(rand.NewPCG(7, 7))
			sent := map[[32]byte]bool{}
			requireJunk := func(data []byte) {
				require.LessOrEqual(t, len(data), 1472)
				require.True(t, sent[sha256.Sum256(data)], "unexpected datagram of %d bytes",
					len(data))
			}
			for i := range 500 {
				junk := make([]byte, random.IntN(3000))
				for k := range junk {
					junk[k] = byte(random.Uint32())
				}
				sent[sha256.Sum256(junk)] = true
				_, _ = stranger.Write(junk) // fails if the port is connected
				if i%25 != 24 {
					continue
				}
				// Drain the socket's buffer, which may be small.
				packets := make([]Packet, 4)
				for range 2 * 25 { // each may be too long
					n, err := a.Receive(packets, Target{})
					require.NoError(t, err)
					for _, p := range packets[:n] {
						require.False(t, sources[p.Source])
						requireJunk(p.Data)
					}
				}
			}
			b := known[0]
			require.True(t, b.Send(openTo(t, b, a), []byte("the real one"), nil))
			require.NoError(t, b.Flush())
			receiveUntil(t, a, "the remote's datagram", func(data []byte, source Source) bool {
				if sources[source] {
					require.Equal(t, "the real one", string(data))
					return true
				}
				requireJunk(data)
				return false
			})
			if remotes == 2 {
				require.Positive(t, counter(a, "datagrams_too_long"))
			}
		})
	}
}

// TestUDPOnlyRemotes: with OnlyRemotes a port with several remotes receives from all of them
// although strangers have sent more than its buffer holds; without a remote again, from everybody.
func TestUDPOnlyRemotes(t *testing.T) {
	a := openUDP(t, UDPOptions{OnlyRemotes: true, ReceiveBuffer: 16 << 10})
	remotes := []*UDP{openUDP(t, UDPOptions{}), openUDP(t, UDPOptions{})}
	var numbers []Remote
	for _, r := range remotes {
		numbers = append(numbers, openTo(t, a, r))
	}
	stranger, err := net.Dial("udp", a.local.String())
	require.NoError(t, err)
	defer stranger.Close()
	for range 1000 {
		_, err = stranger.Write([]byte("noise"))
		require.NoError(t, err)
	}
	for i, r := range remotes {
		require.True(t, r.Send(openTo(t, r, a), []byte("real"), nil))
		require.NoError(t, r.Flush())
		receiveUntil(t, a, "the remote's datagram", func(data []byte, source Source) bool {
			require.Equal(t, "real", string(data))
			require.Equal(t, a.Source(numbers[i]), source)
			return true
		})
	}
	require.GreaterOrEqual(t, counter(a, "receive_drops"), uint64(1000),
		"what the kernel dropped is counted")
	for _, r := range numbers {
		a.Release(r)
	}
	_, err = stranger.Write([]byte("noise"))
	require.NoError(t, err)
	receiveUntil(t, a, "the stranger's datagram",
		func(data []byte, _ Source) bool { return string(data) == "noise" })
}

// TestProbeAmongStrangers: a probe between ports of several remotes ends although strangers send
// requests of probes.
func TestProbeAmongStrangers(t *testing.T) {
	a, b, third := openUDP(t, UDPOptions{}), openUDP(t, UDPOptions{}), openUDP(t, UDPOptions{})
	toB, toA := openTo(t, a, b), openTo(t, b, a)
	openTo(t, b, third)
	stranger, err := net.Dial("udp", b.stream.local.String())
	require.NoError(t, err)
	defer stranger.Close()
	forged := probeHead{kind: probeRequest, count: 1, size: probeSize, group: 1, nonce: 1}
	packet := make([]byte, probeSize)
	forged.put(packet)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var others sync.WaitGroup
	defer others.Wait()
	done := make(chan struct{})
	defer close(done)
	others.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				_, _ = stranger.Write(packet)
			}
		}
	})
	probe := transport.Probe{Kind: transport.ProbeRate, Duration: time.Millisecond, InFlight: 4}
	lead := probe
	lead.Initiate = true
	for range 20 { // a stranger has to be in time to do harm
		follower := make(chan error, 1)
		go func() {
			_, err := b.Probe(ctx, toA, probe)
			follower <- err
		}()
		f, err := a.Probe(ctx, toB, lead)
		require.NoError(t, err)
		require.Positive(t, f.PerOp)
		require.NoError(t, <-follower)
	}
}

// TestUDPQueueBeforeConnection: a stranger's datagram from before the first remote does not get the
// remote's source.
func TestUDPQueueBeforeConnection(t *testing.T) {
	a, b := openUDP(t, UDPOptions{}), openUDP(t, UDPOptions{})
	stranger, err := net.Dial("udp", a.local.String())
	require.NoError(t, err)
	defer stranger.Close()
	for range 3 {
		_, err = stranger.Write([]byte("forged"))
		require.NoError(t, err)
	}
	r := openTo(t, a, b)
	require.NotNil(t, a.connected)
	require.True(t, b.Send(openTo(t, b, a), []byte("real"), nil))
	require.NoError(t, b.Flush())
	receiveUntil(t, a, "the remote's datagram", func(data []byte, source Source) bool {
		require.Equal(t, string(data) == "real", source == a.Source(r))
		return string(data) == "real"
	})
}

// TestUDPRefusals: refusals from a closed port do not affect other remotes.
func TestUDPRefusals(t *testing.T) {
	a, b := openUDP(t, UDPOptions{}), openUDP(t, UDPOptions{})
	gone := openUDP(t, UDPOptions{})
	r := openTo(t, a, gone)
	require.NoError(t, gone.Close())
	for deadline := time.Now().Add(patience); counter(a, "refused") == 0; {
		require.True(t, a.Send(r, []byte("refused"), nil))
		require.NoError(t, a.Flush())
		_, err := a.Receive(make([]Packet, 4), Target{})
		require.NoError(t, err)
		require.True(t, time.Now().Before(deadline), "timed out waiting for a refusal")
	}
	require.True(t, a.Send(r, []byte("again"), nil)) // leaves an error on the socket
	require.NoError(t, a.Flush())
	to := openTo(t, a, b)
	require.True(t, a.Send(to, []byte("hello"), nil))
	require.NoError(t, a.Flush())
	receiveUntil(t, b, "the datagram to the other remote",
		func(data []byte, _ Source) bool { return string(data) == "hello" })
}

// TestUDPDrops: every datagram that the kernel took is received or counted as dropped.
func TestUDPDrops(t *testing.T) {
	for _, offload := range []Offload{OffloadOn, OffloadOff} {
		t.Run(string(offload), func(t *testing.T) {
			a := openUDP(t, UDPOptions{MTU: 1000, Offload: offload})
			b := openUDP(t, UDPOptions{MTU: 1000, Offload: offload, ReceiveBuffer: 16 << 10})
			to, body := openTo(t, a, b), make([]byte, 1000)
			openTo(t, b, a)
			for i := range 2000 {
				body[0] = byte(i) // in runs of one length, and single
				for !a.Send(to, body[:1000-i%7/6], nil) {
					require.NoError(t, a.Flush())
				}
			}
			require.NoError(t, a.Flush())
			require.EqualValues(t, 2000, counter(a, "datagrams_sent"))
			arrived := uint64(0)
			count := func(data []byte) {
				require.True(t, len(data) == 1000 || len(data) == 999)
				arrived++
			}
			packets := make([]Packet, 64)
			// The kernel may be late, and one drop may be several coalesced datagrams.
			for deadline := time.Now().Add(patience); ; {
				n, err := b.Receive(packets, Target{})
				require.NoError(t, err)
				for _, p := range packets[:n] {
					count(p.Data)
				}
				drops := counter(b, "receive_drops")
				require.LessOrEqual(t, arrived+drops, uint64(2000))
				if drops > 0 && (offload == OffloadOn || arrived+drops == 2000) {
					break
				}
				require.True(t, time.Now().Before(deadline),
					"%d arrived and %d were dropped, of 2000", arrived, drops)
			}
			// The port receives again.
			sent := time.Time{}
			for deadline := time.Now().Add(patience); ; {
				if time.Since(sent) > 10*time.Millisecond {
					require.True(t, a.Send(to, []byte("after"), nil))
					require.NoError(t, a.Flush())
					sent = time.Now()
				}
				n, err := b.Receive(packets, Target{})
				require.NoError(t, err)
				if slices.ContainsFunc(packets[:n],
					func(p Packet) bool { return string(p.Data) == "after" }) {
					break
				}
				require.True(t, time.Now().Before(deadline),
					"timed out waiting for a datagram after the flood")
			}
		})
	}
}

// TestUDPWithoutSegmentation: if the kernel refuses to segment, the port loses the offload and no
// datagram.
func TestUDPWithoutSegmentation(t *testing.T) {
	a, b := openUDP(t, UDPOptions{MTU: 1000}), openUDP(t, UDPOptions{MTU: 1000})
	to := openTo(t, a, b)
	// The kernel does not segment without checksums: udp_send_skb in net/ipv4/udp.c.
	require.NoError(t, unix.SetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
	want := map[string]bool{}
	for i := range 20 {
		data := bytes.Repeat([]byte{byte(i)}, 100)
		want[string(data)] = true
		require.True(t, a.Send(to, data, nil))
	}
	require.NoError(t, a.Flush())
	require.EqualValues(t, 1, counter(a, "segmentation_refused"))
	receiveUntil(t, b, "all datagrams", func(data []byte, _ Source) bool {
		require.True(t, want[string(data)])
		delete(want, string(data))
		return len(want) == 0
	})
	require.Zero(t, counter(a, "send_errors"))
}

// Replies of two sizes in turns go in two messages, and the last one, shorter and alone, with the
// one before it.
func TestUDPRunsBySize(t *testing.T) {
	a, b := openUDP(t, UDPOptions{MTU: 1000}), openUDP(t, UDPOptions{MTU: 1000})
	to := openTo(t, a, b)
	for _, c := range []struct{ long, short, messages int }{{16, 16, 2}, {16, 1, 1}, {1, 1, 1}} {
		before := counter(a, "segmented")
		for i := range max(c.long, c.short) {
			if i < c.long {
				require.True(t, a.Send(to, make([]byte, 16), make([]byte, 200)))
			}
			if i < c.short {
				require.True(t, a.Send(to, make([]byte, 16), make([]byte, 16)))
			}
		}
		require.NoError(t, a.Flush())
		require.EqualValues(t, c.messages, counter(a, "segmented")-before, "%+v", c)
		arrived := 0
		receiveUntil(t, b, "all datagrams", func([]byte, Source) bool {
			arrived++
			return arrived == c.long+c.short
		})
	}
}

// Datagrams without a body and those of the MTU, which may be parts of a message, are not overtaken
// and overtake none, whatever sizes are sent between them, and whether the kernel segments or not.
func TestUDPOrder(t *testing.T) {
	for _, segments := range []bool{true, false} {
		rapid.Check(t, func(r *rapid.T) {
			a, b := openUDP(t, UDPOptions{MTU: 1000}), openUDP(t, UDPOptions{MTU: 1000})
			to := openTo(t, a, b)
			if !segments { // as in TestUDPWithoutSegmentation
				require.NoError(t, unix.SetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1))
			}
			bodies := rapid.SliceOfN(rapid.SampledFrom([]int{0, 0, 20, 20, 60, 999}), 1, 40).Draw(r,
				"bodies")
			var since, sent []string // since the last datagram that keeps its place
			for i, size := range bodies {
				head, body := []byte{byte(i)}, bytes.Repeat([]byte{byte(i)}, size)
				require.True(t, a.Send(to, head, body))
				sent = append(sent, string(head)+string(body))
			}
			require.NoError(t, a.Flush())
			var arrived []string
			receiveUntil(t, b, "all datagrams", func(data []byte, _ Source) bool {
				arrived = append(arrived, string(data))
				return len(arrived) == len(sent)
			})
			for i, data := range sent {
				if since = append(since, data); bodies[i]%999 == 0 || i == len(sent)-1 {
					from := i + 1 - len(since)
					require.ElementsMatch(r, since, arrived[from:i+1])
					if bodies[i]%999 == 0 {
						require.Equal(r, data, arrived[i])
					}
					since = nil
				}
			}
			require.NoError(t, a.Close())
			require.NoError(t, b.Close())
		})
	}
}

// TestUDPCoalesces: bursts pass through the kernel as one message in both directions.
func TestUDPCoalesces(t *testing.T) {
	a, b := openUDP(t, UDPOptions{MTU: 1000}), openUDP(t, UDPOptions{MTU: 1000})
	to := openTo(t, a, b)
	for deadline := time.Now().Add(patience); counter(b, "coalesced") == 0; {
		for range 64 {
			_ = a.Send(to, make([]byte, 100), nil)
		}
		require.NoError(t, a.Flush())
		for range 8 {
			_, err := b.Receive(make([]Packet, 16), Target{})
			require.NoError(t, err)
		}
		require.True(t, time.Now().Before(deadline),
			"timed out waiting for the kernel to hand out several at once")
	}
	require.Positive(t, counter(a, "segmented"))
	require.Less(t, counter(b, "receive_calls"), counter(b, "datagrams_received"))
}

// Bodies of the MTU come into the target, one for each datagram in order, and all others in one
// piece. Nothing is written to the target after the next Receive.
func TestUDPTarget(t *testing.T) {
	const mtu, head = 1000, 16
	mixed := []int{mtu, 10, mtu - 1, mtu, head, head + 1, mtu, mtu, 300, 300, 300, mtu}
	hundreds := slices.Repeat([]int{100}, mtu/100) // coalesced, they are as long as the MTU
	for _, c := range []struct {
		offload Offload
		sizes   []int
	}{{OffloadOff, mixed}, {OffloadOn, mixed}, {OffloadOn, hundreds}} {
		offload, sizes := c.offload, c.sizes
		a, b := openUDP(t, UDPOptions{MTU: mtu, Offload: offload}),
			openUDP(t, UDPOptions{MTU: mtu, Offload: offload})
		to := openTo(t, a, b)
		datagram := func(number, size int) []byte {
			return bytes.Repeat([]byte{byte(number)}, size)
		}
		into := make([]byte, 8*(mtu-head)+5)
		packets := make([]Packet, 3)
		placed := 0
		for round := range 20 {
			for number, size := range sizes {
				require.True(t, a.Send(to, datagram(number, size), nil))
			}
			require.NoError(t, a.Flush())
			clear(into)
			var bodies []int // offsets in into, of this fetch
			since := 0       // datagrams of this fetch
			for number, deadline := 0, time.Now().Add(patience); number < len(sizes); {
				require.True(t, time.Now().Before(deadline))
				if b.receive.next == b.receive.filled {
					bodies, since = nil, 0
				}
				target := Target{into, head}
				if round%4 == 3 {
					target = Target{}
				}
				n, err := b.Receive(packets, target)
				require.NoError(t, err)
				for _, p := range packets[:n] {
					if p.Body != nil {
						placed++
						require.Equal(t, mtu, sizes[number])
						require.Len(t, p.Data, head)
						at := 0
						for &into[at] != &p.Body[0] {
							at += mtu - head
						}
						require.NotContains(t, bodies, at, "each has a place of its own")
						require.GreaterOrEqual(t, at, since*(mtu-head),
							"before the part of its turn")
						bodies = append(bodies, at)
						p.Join()
					}
					require.Equal(t, datagram(number, sizes[number]), p.Data)
					number++
					since++
				}
			}
			require.Zero(t, bytes.Count(into[8*(mtu-head):], []byte{1}), "not a whole part")
		}
		require.Equal(t, slices.Contains(sizes, mtu), placed > 0)

		clear(into)
		_, err := b.Receive(packets, Target{into, head}) // there is nothing
		require.NoError(t, err)
		require.True(t, a.Send(to, datagram(7, mtu), nil))
		require.NoError(t, a.Flush())
		receiveUntil(t, b, "a datagram",
			func(data []byte, _ Source) bool { return bytes.Equal(data, datagram(7, mtu)) })
		require.Zero(t, bytes.Count(into, []byte{7}))
	}
}

func TestUDPNotes(t *testing.T) {
	a := openUDP(t, UDPOptions{ReceiveBuffer: 1 << 20, SendBuffer: 1 << 20})
	require.Contains(t, a.Notes()["address"], "127.0.0.1:")
	require.NotEmpty(t, a.Notes()["receive-buffer"])
	require.NotEmpty(t, a.Notes()["send-buffer"])
	require.Contains(t, []string{"off", "gso", "gro", "gso+gro"}, a.Notes()["offload"])
}

// FuzzUDPAddress: decoding never panics, and an accepted address encodes to the same bytes.
func FuzzUDPAddress(f *testing.F) {
	f.Add(udpAddress{addr: netip.MustParseAddrPort("127.0.0.1:80"), mtu: 1472, probe: 81}.encode())
	f.Add(udpAddress{addr: netip.MustParseAddrPort("[fe80::1]:80"), mtu: 1452, probe: 81}.encode())
	f.Fuzz(func(t *testing.T, address []byte) {
		a, err := decodeUDPAddress(address)
		if err != nil {
			return
		}
		require.Equal(t, address, a.encode())
		var s sockaddr
		s.set(a.addr, 3)
		require.EqualValues(t, a.addr.Port(), uint16(s.source().Port))
	})
}

// FuzzProbe: the answering side of a probe survives all input.
func FuzzProbe(f *testing.F) {
	head := make([]byte, probeSize)
	for _, h := range []probeHead{{kind: probeRequest, alone: true, count: 1, size: 64, nonce: 1},
		{kind: probeOver, nonce: 1},
		{kind: probeRequest, count: 65535, size: 1 << 31, nonce: 2}} {
		h.put(head)
		f.Add(slices.Clone(head))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &fuzzLink{t: t, in: data}
		p := &probe{link: l, mtu: 1000}
		l.ended = func() { p.stopped.Store(true) }
		var last uint64
		p.answer(&last)
	})
}

// fuzzLink returns the fuzzer's input in pieces.
type fuzzLink struct {
	t     *testing.T
	in    []byte
	last  []byte
	ended func()
}

func (l *fuzzLink) post(head []byte, size, n int) int {
	require.GreaterOrEqual(l.t, size, len(head))
	require.LessOrEqual(l.t, size, 1000)
	require.Positive(l.t, n)
	require.LessOrEqual(l.t, n, maxProbe)
	return n
}

func (l *fuzzLink) take(int) int {
	if len(l.in) == 0 {
		l.ended()
		return 0
	}
	n := min(len(l.in), probeSize)
	l.last, l.in = l.in[:n], l.in[n:]
	return 1
}

func (l *fuzzLink) head(int) []byte { return l.last }

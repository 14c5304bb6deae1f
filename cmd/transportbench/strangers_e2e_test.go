package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/lab/store/result"
)

// port is a socket of a rank that anyone can reach.
type port struct {
	network string // "udp" or "tcp"
	at      netip.AddrPort
}

// portsOf returns the UDP sockets and the listening TCP sockets of processes, as far as they still
// run.
func portsOf(pids []int) (ports []port) {
	for _, pid := range pids {
		inodes := map[string]bool{}
		links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, link := range links {
			if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, "socket:[") {
				inodes[strings.Trim(to, "socket:[]")] = true
			}
		}
		for _, network := range []string{"udp", "tcp"} {
			table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, network))
			for _, line := range strings.Split(string(table), "\n") {
				f := strings.Fields(line)
				const listening = "0A"
				if len(f) < 10 || !inodes[f[9]] || network == "tcp" && f[3] != listening {
					continue
				}
				var a [4]byte
				var number uint16
				if _, err := fmt.Sscanf(f[1], "%02X%02X%02X%02X:%04X", &a[3], &a[2], &a[1], &a[0],
					&number); err != nil {
					continue
				}
				if a == [4]byte{} {
					a = [4]byte{127, 0, 0, 1}
				}
				ports = append(ports, port{network, netip.AddrPortFrom(netip.AddrFrom4(a), number)})
			}
		}
	}
	return ports
}

// recording has packets that others sent over the loopback.
type recording struct {
	bodies [][]byte // of UDP and TCP
	whole  [][]byte // UDP packets with their IP headers
}

// capture records the packets to some ports, or nothing without the privilege for it.
func capture(t *testing.T, ports []port, limit int) (r recording) {
	t.Helper()
	// ETH_P_IP in network order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(0x0008))
	if err != nil {
		t.Logf("no packets are replayed, because none can be recorded: %v", err)
		return r
	}
	defer unix.Close(fd)
	require.NoError(t, unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
		&unix.Timeval{Usec: 100_000}))
	wanted := map[uint16]bool{}
	for _, p := range ports {
		wanted[p.at.Port()] = true
	}
	b := make([]byte, 1<<16)
	for until := time.Now().Add(5 * time.Second); len(r.bodies) < limit &&
		time.Now().Before(until); {
		n, err := unix.Read(fd, b)
		head := 0
		if err == nil && n > 20 {
			head = int(b[0]&15) * 4
		}
		if head == 0 || n < head+20 || !wanted[binary.BigEndian.Uint16(b[head+2:])] {
			continue
		}
		switch packet := append([]byte(nil), b[:n]...); packet[9] {
		case unix.IPPROTO_UDP:
			r.whole = append(r.whole, packet)
			r.bodies = append(r.bodies, packet[head+8:])
		case unix.IPPROTO_TCP:
			if body := packet[min(n, head+int(packet[head+12]>>4)*4):]; len(body) > 0 {
				r.bodies = append(r.bodies, body)
			}
		}
	}
	return r
}

// strangers attack the ports of all plugins until stop is called.
type strangers struct {
	seen []recording
	rate int // packets and connections per second, each
	done chan struct{}
	once sync.Once
	wait sync.WaitGroup
	sent int
}

func attack(seed uint64, rate int, seen ...recording) *strangers {
	s := &strangers{seen: seen, rate: rate, done: make(chan struct{})}
	s.wait.Go(func() { s.run(rand.New(rand.NewPCG(seed, 0))) })
	return s
}

func (s *strangers) stop() int {
	s.once.Do(func() { close(s.done) })
	s.wait.Wait()
	return s.sent
}

func (s *strangers) run(r *rand.Rand) {
	forger, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err == nil {
		defer unix.Close(forger)
	}
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return
	}
	defer udp.Close()
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	const tick = 2 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	perTick := max(int(time.Duration(s.rate)*tick/time.Second), 1)
	var ports []port
	for ticks := 0; ; ticks++ {
		select {
		case <-s.done:
			return
		case <-ticker.C:
		}
		if ticks%50 == 0 {
			ports = portsOf(plugins())
		}
		if len(ports) == 0 {
			continue
		}
		for range perTick {
			s.sent++
			p := ports[r.IntN(len(ports))]
			if p.network == "udp" {
				if whole := s.whole(r); whole != nil && forger >= 0 && r.IntN(4) == 0 {
					_ = unix.Sendto(forger, whole, 0,
						&unix.SockaddrInet4{Addr: [4]byte(whole[16:20])})
					continue
				}
				_, _ = udp.WriteToUDPAddrPort(s.body(r), p.at)
				continue
			}
			if s.sent%8 == 0 { // a connection costs the machine as much as some packets
				held = s.connect(r, p, held)
			}
		}
	}
}

// halfOpen is how many connections stay open and say too little.
const halfOpen = 300

// connect connects to a port. The first connections are held, and others say something and go.
func (s *strangers) connect(r *rand.Rand, p port, held []net.Conn) []net.Conn {
	c, err := net.DialTimeout("tcp", p.at.String(), 50*time.Millisecond)
	if err != nil {
		return held
	}
	if len(held) < halfOpen {
		_, _ = c.Write([]byte("?")[:r.IntN(2)])
		return append(held, c)
	}
	_ = c.SetWriteDeadline(time.Now().Add(time.Millisecond))
	_, _ = c.Write(s.body(r))
	if r.IntN(2) == 0 {
		_ = c.(*net.TCPConn).SetLinger(0) // close with RST
	}
	c.Close()
	return held
}

// whole returns a recorded packet with the address of its sender, or nil.
func (s *strangers) whole(r *rand.Rand) []byte {
	if len(s.seen) == 0 {
		return nil
	}
	if all := s.seen[r.IntN(len(s.seen))].whole; len(all) > 0 {
		return all[r.IntN(len(all))]
	}
	return nil
}

// body returns noise, or recorded bytes, as they were, cut short or changed.
func (s *strangers) body(r *rand.Rand) []byte {
	noise := make([]byte, r.IntN(200))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	if len(s.seen) == 0 {
		return noise
	}
	all := s.seen[r.IntN(len(s.seen))].bodies
	how := r.IntN(4)
	if len(all) == 0 || how == 0 {
		return noise
	}
	b := append([]byte(nil), all[r.IntN(len(all))]...)
	switch {
	case len(b) == 0:
	case how == 1:
		b = b[:r.IntN(len(b))]
	case how == 2:
		b[r.IntN(len(b))] ^= 1 << r.IntN(8)
	}
	return b
}

// TestStrangers lets strangers at all ports of a run's ranks, from its beginning on and again after
// some windows without them: noise, packets of another run, whole and damaged, some of them with
// the address of their sender, and hundreds of connections that say nothing. The run ends well,
// every response is right, the ranks soon hold nothing that strangers left, and they are as fast as
// before.
func TestStrangers(t *testing.T) {
	for name, options := range map[string][]string{
		"erpc":    {"--transport", "erpc", "--set", "provider=udp"},
		"tcpx":    {"--transport", "tcpx", "--set", "sockets=2"},
		"sockets": {"--transport", "sockets"},
	} {
		t.Run(name, func(t *testing.T) {
			load := append([]string{"--launches", "1", "--duration", "200ms", "--ranks", "3",
				"--in-flight", "4", "--verify-every", "1"}, options...)
			other := begin(t, "repeat 1 of", load...)
			quiet := quietFootprint(t)
			seen := capture(t, portsOf(plugins()), 300)
			require.NoError(t, other.cmd.Process.Signal(os.Interrupt))
			require.Equal(t, 130, other.wait(t))

			first := attack(1, 5000, seen)
			defer first.stop()
			var second *strangers
			i := command(t, append([]string{"run", "--json", "--warmup", "10ms", "--repeats", "7"},
				load...)...)
			i.cmd.Stderr = nil
			stderr, err := i.cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, i.cmd.Start())
			lines := bufio.NewScanner(stderr)
			for lines.Scan() {
				i.stderr.WriteString(lines.Text() + "\n")
				switch {
				case strings.HasSuffix(lines.Text(), "repeat 1 of 7"):
					t.Logf("%d packets and connections of strangers", first.stop())
				case strings.HasSuffix(lines.Text(), "repeat 4 of 7") && second == nil:
					// a window that is measured again says so twice
					second = attack(2, 5000, seen)
					defer second.stop()
				case strings.HasSuffix(lines.Text(), "repeat 5 of 7"):
					t.Logf("%d packets and connections of strangers", second.stop())
					requireForgotten(t, quiet)
				}
			}
			require.NotNil(t, second, i.stderr.String())
			require.Zero(t, i.wait(t), i.stderr.String())
			r, err := result.Parse(i.stdout.Bytes())
			require.NoError(t, err)
			for _, c := range r.Checks {
				require.True(t, c.OK || c.Severity != result.Error, "%s: %s", c.Name, c.Message)
				if c.Name == "strangers" {
					require.Contains(t, c.Message, "of strangers came")
				}
			}
			// The median before the second attack, and the best after it: damage that lasts slows
			// all windows, a busy machine some. Without damage, a machine with eight busy threads
			// on each processor has brought the ratio to 0.07; a timeout for each call would make
			// it 0.001.
			var throughput []float64
			for _, repeat := range r.Repeats {
				throughput = append(throughput, repeat.Samples[result.Throughput])
			}
			before, after := slices.Sorted(slices.Values(throughput[:3]))[1],
				slices.Max(throughput[4:])
			t.Logf("throughput after the attack is %.2f of that before it: %.0f", after/before,
				throughput)
			require.Greater(t, after, before/20, "op/s of all windows: %.0f", throughput)
		})
	}
}

// quietFootprint returns what all ranks hold between the probes that a run makes before each
// window.
func quietFootprint(t *testing.T) (quiet footprint) {
	t.Helper()
	for range 50 {
		now, err := footprintOf(plugins()...)
		require.NoError(t, err)
		if quiet.processes == 0 || now.descriptors < quiet.descriptors {
			quiet = now
		}
		time.Sleep(10 * time.Millisecond)
	}
	return quiet
}

// requireForgotten requires that all ranks soon hold no more than ranks that strangers left alone.
func requireForgotten(t *testing.T, quiet footprint) {
	t.Helper()
	var now footprint
	require.Eventually(t, func() bool {
		var err error
		now, err = footprintOf(plugins()...)
		return err == nil && now.processes == quiet.processes &&
			now.descriptors >= quiet.descriptors-8 && // a rank at its end has closed its sockets
			now.descriptors <= quiet.descriptors+8 &&
			now.threads < quiet.threads+10 && now.memory < quiet.memory+64<<10
	}, 5*time.Second, 5*time.Millisecond, "they hold %+v, and without strangers %+v", &now, quiet)
	t.Logf("all ranks hold %+v, and without strangers %+v", now, quiet)
}

package copyrpc

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
)

// rankRole is a child that sends its address, receives the addresses of all ranks, and calls and
// serves until its parent closes. All that it sends are reports.
const rankRole = "rank"

// rankConfig configures a rank.
type rankConfig struct {
	Rank     int               `json:"rank"`
	Ranks    int               `json:"ranks"`
	Options  map[string]string `json:"options"`
	Calls    int               `json:"calls"` // to each other rank; negative for no limit
	InFlight int               `json:"in_flight"`
	Payload  int               `json:"payload"`
}

// report is a line that a rank prints.
type report struct {
	Address  string            `json:"address,omitempty"`
	Answered int               `json:"answered"`
	Served   int               `json:"served"`
	Lost     []int             `json:"lost,omitempty"` // ranks
	Done     bool              `json:"done"`
	Stats    map[string]uint64 `json:"stats,omitempty"`
}

// caller is the loop of a rank. It calls every peer and echoes their requests.
type caller struct {
	rankConfig
	w      transport.Worker
	sent   []int // by peer
	flying []int // calls in flight, by peer
	lost   []bool
	report report
}

func serveRank(parent *fabrictest.Parent) error {
	var c rankConfig
	if err := parent.Config(&c); err != nil {
		return err
	}
	options, err := transport.ParseOptions(schema, c.Options)
	if err != nil {
		return err
	}
	tr, err := Driver{}.Open(context.Background(), transport.Config{Rank: c.Rank, Workers: 1,
		Peers:    c.Ranks - 1,
		InFlight: c.InFlight, MaxPayload: c.Payload, Options: options})
	if err != nil {
		return err
	}
	defer tr.Close()
	w, err := tr.NewWorker(0)
	if err != nil {
		return err
	}
	if err := parent.Send(report{Address: string(w.Address())}); err != nil {
		return err
	}
	var addresses []string
	if err := parent.Receive(&addresses); err != nil {
		return err
	}
	k := &caller{rankConfig: c, w: w, sent: make([]int, c.Ranks), flying: make([]int, c.Ranks),
		lost: make([]bool, c.Ranks)}
	for rank, address := range addresses {
		if rank != c.Rank {
			if err := w.Connect(context.Background(), transport.PeerID(rank),
				[]byte(address)); err != nil {
				return err
			}
		}
	}
	over := parent.Ended()
	for last := (report{}); !over.Load(); {
		if err := k.step(); err != nil {
			return err
		}
		if now := k.report; now.Done != last.Done || len(now.Lost) != len(last.Lost) ||
			now.Answered > last.Answered+500 && c.Calls < 0 {
			last = now
			if err := parent.Send(now); err != nil {
				return err
			}
		}
	}
	k.report.Stats = map[string]uint64{}
	for _, s := range w.(transport.StatsReader).ReadStats(nil) {
		k.report.Stats[s.Name] = s.Value
	}
	return parent.Send(k.report)
}

// payload returns the payload of a call: its number, caller and callee, and bytes that
// depend on them. The length varies with the number.
func (k *caller) payload(from, to, number int) []byte {
	b := make([]byte, min(16+number*7%1500, k.Payload))
	binary.LittleEndian.PutUint64(b, uint64(number))
	binary.LittleEndian.PutUint32(b[8:], uint32(from))
	binary.LittleEndian.PutUint32(b[12:], uint32(to))
	for i := 16; i < len(b); i++ {
		b[i] = byte(number + i*3 + from)
	}
	return b
}

// step posts as many calls as allowed, polls once and handles the events.
func (k *caller) step() error {
	for rank := range k.Ranks {
		for rank != k.Rank && !k.lost[rank] && k.flying[rank] < k.InFlight &&
			(k.Calls < 0 || k.sent[rank] < k.Calls) {
			op := transport.Op{Kind: transport.OpCall, Peer: transport.PeerID(rank),
				Token:   transport.Token(k.sent[rank]),
				Payload: k.payload(k.Rank, rank, k.sent[rank])}
			n, err := k.w.Post([]transport.Op{op})
			if err != nil && !errors.Is(err, transport.ErrPeerDown) {
				return err
			}
			if n == 0 { // no room, or the loss is about to be reported
				break
			}
			k.sent[rank]++
			k.flying[rank]++
		}
	}
	if err := k.w.Flush(); err != nil {
		return err
	}
	var events [32]transport.Event
	n, err := k.w.Poll(events[:])
	if err != nil {
		return err
	}
	for _, e := range events[:n] {
		if err := k.take(e); err != nil {
			return err
		}
	}
	k.report.Done = true
	for rank := range k.Ranks {
		if rank != k.Rank && !k.lost[rank] && (k.Calls < 0 || k.sent[rank] < k.Calls ||
			k.flying[rank] > 0) {
			k.report.Done = false
		}
	}
	return nil
}

func (k *caller) take(e transport.Event) error {
	rank := int(e.Peer)
	switch e.Kind {
	case transport.EventPeerLost:
		k.lost[rank] = true
		k.report.Lost = append(k.report.Lost, rank)
	case transport.EventRequest:
		if number := int(binary.LittleEndian.Uint64(e.Payload)); !bytes.Equal(e.Payload,
			k.payload(rank, k.Rank, number)) {
			return fmt.Errorf("rank %d: request %d of rank %d is damaged", k.Rank, number, rank)
		}
		k.report.Served++
		n, err := k.w.Post([]transport.Op{{Kind: transport.OpReply, Peer: e.Peer, Token: e.Token,
			Payload: e.Payload}})
		if errors.Is(err, transport.ErrPeerDown) {
			return nil
		}
		if err != nil || n != 1 {
			return fmt.Errorf("rank %d: a reply to rank %d was not taken: %w", k.Rank, rank, err)
		}
	case transport.EventResponse:
		if !bytes.Equal(e.Payload, k.payload(k.Rank, rank, int(e.Token))) {
			return fmt.Errorf("rank %d: response %d of rank %d is damaged", k.Rank, e.Token, rank)
		}
		k.flying[rank]--
		k.report.Answered++
	}
	return nil
}

// process is a rank as the test sees it.
type process struct {
	*fabrictest.Child
	t       *testing.T
	reports chan report
}

// startRanks starts a process per configuration and connects all to all.
func startRanks(t *testing.T, configs ...rankConfig) []*process {
	var ranks []*process
	var addresses []string
	for i, c := range configs {
		c.Rank, c.Ranks = i, len(configs)
		p := &process{Child: fabrictest.Start(t, rankRole, c), t: t,
			reports: make(chan report, 1000)}
		go func() { // a rank must not wait for the test to take its reports
			defer close(p.reports)
			for r := (report{}); p.Read(&r) == nil; r = (report{}) {
				p.reports <- r
			}
		}()
		ranks = append(ranks, p)
		addresses = append(addresses, p.next("its address").Address)
	}
	for _, p := range ranks {
		p.Send(addresses)
	}
	return ranks
}

// next waits for the rank's next report.
func (p *process) next(what string) report {
	p.t.Helper()
	select {
	case r, ok := <-p.reports:
		require.True(p.t, ok, "the rank died before %s", what)
		return r
	case <-time.After(2 * time.Minute):
		require.FailNow(p.t, "timeout", "waiting for %s", what)
		panic("unreachable")
	}
}

// until reads reports until wanted accepts one.
func (p *process) until(what string, wanted func(report) bool) report {
	p.t.Helper()
	for {
		if r := p.next(what); wanted(r) {
			return r
		}
	}
}

// end stops a rank and returns its last report.
func (p *process) end() (last report) {
	p.t.Helper()
	p.Close()
	return p.until("its last report", func(r report) bool { return r.Stats != nil })
}

func done(r report) bool { return r.Done }

// clientServer runs clients against one rank that only serves.
func clientServer(t *testing.T, clients, calls int, options map[string]string) {
	c := rankConfig{Options: options, InFlight: 32, Payload: 2048}
	configs := []rankConfig{c}
	c.Calls = calls
	for range clients {
		configs = append(configs, c)
	}
	// Clients call each other too; the server calls nobody.
	ranks := startRanks(t, configs...)
	for _, p := range ranks[1:] {
		p.until("all responses", done)
	}
	for i, p := range ranks {
		r := p.end()
		if i == 0 {
			require.Zero(t, r.Answered)
			require.Equal(t, calls*clients, r.Served, "calls served")
		} else {
			require.Equal(t, calls*clients, r.Answered, "calls answered at rank %d", i)
		}
		require.Zero(t, r.Stats["receiver_not_ready"], "receiver not ready at rank %d", i)
		batches, messages := uint64(0), uint64(0) // by size
		for name, n := range r.Stats {
			if maximum, is := transport.BatchSizeOf(name); is {
				batches, messages = batches+n, messages+n*uint64(maximum)
			}
		}
		require.Equal(t, r.Stats["batches"], batches, "batches by size")
		require.GreaterOrEqual(t, messages, r.Stats["messages"], "sizes are upper bounds")
		require.LessOrEqual(t, r.Stats["doorbells"], r.Stats["batches"]+r.Stats["credit_only"]+
			r.Stats["position_reads"], "doorbells")
	}
}

// mesh lets every rank call every other.
func mesh(t *testing.T, size, calls int, options map[string]string) {
	c := rankConfig{Options: options, InFlight: 16, Payload: 1024, Calls: calls}
	configs := make([]rankConfig, size)
	for i := range configs {
		configs[i] = c
	}
	ranks := startRanks(t, configs...)
	for _, p := range ranks {
		p.until("all responses", done)
	}
	for i, p := range ranks {
		r := p.end()
		require.Equal(t, calls*(size-1), r.Answered, "calls answered at rank %d", i)
		require.Equal(t, calls*(size-1), r.Served, "calls served at rank %d", i)
	}
}

// killed kills one of three ranks under load. The other two must report the loss and go on
// calling each other.
func killed(t *testing.T, options map[string]string) {
	c := rankConfig{Options: options, InFlight: 8, Payload: 512, Calls: -1}
	ranks := startRanks(t, c, c, c)
	for _, p := range ranks {
		p.next("calls to be answered")
	}
	ranks[2].Kill()
	for _, p := range ranks[:2] {
		before := p.until("the loss", func(r report) bool { return len(r.Lost) > 0 })
		require.Equal(t, []int{2}, before.Lost)
		after := p.until("more calls to the other rank",
			func(r report) bool { return r.Answered > before.Answered+1000 })
		require.Equal(t, []int{2}, after.Lost)
	}
}

// killedIdle kills one of two ranks without load. The keepalive of the other must find it.
func killedIdle(t *testing.T, options map[string]string) {
	c := rankConfig{Options: options, InFlight: 8, Payload: 512, Calls: 10}
	ranks := startRanks(t, c, c)
	ranks[0].until("all responses", done)
	ranks[1].until("all responses", done)
	ranks[1].Kill()
	ranks[0].until("the loss", func(r report) bool { return len(r.Lost) == 1 })
}

package shmperf

import (
	"os"
	"strings"

	"transportbench/core/fabric/shm/ring"
)

// demoted is Onesided as copyrpc has it: the producer hints that the line of the first message
// after each Publish be moved to the cache that all processors share.
const demoted = "onesided-demote"

// variants returns the names of the rings that this processor can run.
func variants() []string {
	all := append([]string{}, ring.Algorithms()...)
	if demotes() {
		all = append(all, demoted)
	}
	return all
}

// demotes reports whether the processor has CLDEMOTE.
func demotes() bool {
	text, _ := os.ReadFile("/proc/cpuinfo")
	return strings.Contains(string(text), " cldemote")
}

// newProducer is [ring.NewProducer] of a variant.
func newProducer(b []byte, variant string, g ring.Geometry) (ring.Producer, error) {
	a, err := ring.ParseAlgorithm(strings.TrimSuffix(variant, "-demote"))
	if err != nil {
		return nil, err
	}
	p, err := ring.NewProducer(b, a, g)
	if err == nil && variant == demoted {
		p = &demotingProducer{Producer: p, memory: b, geometry: g, demote: demoteLine}
	}
	return p, err
}

func newConsumer(b []byte, variant string, g ring.Geometry) (ring.Consumer, error) {
	a, err := ring.ParseAlgorithm(strings.TrimSuffix(variant, "-demote"))
	if err != nil {
		return nil, err
	}
	return ring.NewConsumer(b, a, g)
}

// demotingProducer is the producer of demoted.
type demotingProducer struct {
	ring.Producer
	memory   []byte
	geometry ring.Geometry
	demote   func(line *byte)
	pushed   uint64
	done     bool // since the last Publish
}

// Push implements [ring.Producer].
func (p *demotingProducer) Push(kind ring.Kind, token uint64, payload []byte) error {
	if err := p.Producer.Push(kind, token, payload); err != nil {
		return err
	}
	if !p.done {
		p.done = true
		p.demote(&p.memory[p.geometry.SlotOffset(p.pushed)])
	}
	p.pushed++
	return nil
}

// Publish implements [ring.Producer].
func (p *demotingProducer) Publish() {
	p.Producer.Publish()
	p.done = false
}

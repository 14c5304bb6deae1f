package shmperf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/fabric/shm"
	"transportbench/core/fabric/spin"
)

// between says where the nodes of a team run.
type between string

const (
	threads   between = "threads"   // of this process
	processes between = "processes" // node 0 in this one, each other node in one of its own
)

// job describes what the nodes of a team do. A process gets it as JSON.
type job struct {
	Work     string // a key of works
	Variant  string // the ring or queue
	InFlight int    // of calls
	Nodes    int
	Node     int
	CPUs     []int
	Duration time.Duration
	Body     int // bytes of memory after the control words
	Count    int // of transfer: bytes
	Huge     bool
}

// works maps names to what a node does.
var works = map[string]func(*node) error{
	"stream":   (*node).stream,
	"call":     (*node).call,
	"mesh":     (*node).meshNode,
	"transfer": (*node).transfers,
}

// The control words of a team, in bytes from the start of its memory.
const (
	phaseOffset = 0    // u32
	readyOffset = 128  // u32: calls of join
	pingOffset  = 256  // u64: nodes 0 and 1 pass its line back and forth
	tallyOffset = 512  // tallySize for each node
	tallySize   = 128  // u64 operations, u64 nanoseconds
	bodyOffset  = 4096 // what the work needs
	maxNodes    = (bodyOffset - tallyOffset) / tallySize
)

// The phases of a measurement. Node 0 advances them.
const (
	warming = iota
	measuring
	over
)

// node is one node of a team.
type node struct {
	job
	ctx     context.Context
	memory  []byte
	body    []byte
	phase   *atomic.Uint32
	yields  bool // nodes share processors
	wait    spin.Wait
	looks   int
	joined  int
	minimum uint64 // operations that a window has, even if it takes longer

	// of node 0
	floor     float64   // round trip of a cache line
	latencies []float64 // of batches
}

func newNode(ctx context.Context, j job, memory []byte) *node {
	return &node{job: j, ctx: ctx, memory: memory, body: memory[bodyOffset:],
		phase:  shm.Word32(memory, phaseOffset),
		yields: j.Nodes > len(j.CPUs)}
}

// cpu returns the node's processor.
func (n *node) cpu() int { return n.CPUs[n.Node%len(n.CPUs)] }

// idle is called after each look that found nothing.
func (n *node) idle() {
	if n.yields {
		if n.looks++; n.looks%16 == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
		return
	}
	n.wait.Idle()
}

// found is called after a look that found something.
func (n *node) found() {
	if n.looks = 0; !n.yields {
		n.wait.Found()
	}
}

// errOver is returned by nodes that were told to end before they began.
var errOver = errors.New("another node of the measurement ended")

// join waits until all nodes have called it as often as this one.
func (n *node) join() error {
	n.joined++
	ready := shm.Word32(n.memory, readyOffset)
	ready.Add(1)
	for int(ready.Load()) < n.joined*n.Nodes {
		if n.phase.Load() == over {
			return errOver
		}
		n.idle()
	}
	n.found()
	return nil
}

// tally stores the node's operations in the window.
func (n *node) tally(operations uint64, took time.Duration) {
	at := tallyOffset + n.Node*tallySize
	shm.Word64(n.memory, at+8).Store(uint64(took))
	shm.Word64(n.memory, at).Store(operations)
}

// window leads through warm-up and measurement. step does a bounded amount of work and returns the
// operations so far. Node 0 advances the phases, by its clock, and the others follow. A window
// lasts until node 0 has completed n.minimum operations, at least one.
func (n *node) window(step func() (operations uint64, err error)) error {
	var operations, first uint64
	began := time.Now()
	phase := uint32(warming)
	for steps := 0; ; steps++ {
		var err error
		if operations, err = step(); err != nil {
			n.phase.Store(over)
			return err
		}
		seen := n.phase.Load()
		if n.Node == 0 && seen != over && steps%clockSteps == 0 {
			switch passed := time.Since(began); {
			case phase == warming && passed >= n.Duration/5:
				seen = measuring
			case phase == measuring && passed >= n.Duration &&
				operations-first >= max(n.minimum, 1):
				seen = over
			}
			n.phase.Store(seen)
		}
		switch {
		case seen == phase:
		case seen == measuring:
			phase, first, began = measuring, operations, time.Now()
		case phase == measuring:
			n.tally(operations-first, time.Since(began))
			return nil
		default:
			return nil // over without a window
		}
	}
}

// clockSteps is how many steps pass between two readings of the clock.
const clockSteps = 32

// run runs the node on this thread.
func (n *node) run() error {
	err := n.join()
	if err == nil {
		err = works[n.Work](n)
	}
	if err != nil {
		n.phase.Store(over)
	}
	return err
}

// outcome is what a team measured.
type outcome struct {
	rate      float64 // operations per second, summed over the nodes
	samples   int
	floor     float64
	latencies []float64
}

// endTime is how long the other nodes may take to end after node 0.
const endTime = 10 * time.Second

// team runs a job.
func (b *bench) team(j job, where between) (o outcome, err error) {
	j.CPUs, j.Duration = b.cpus, b.Duration
	if j.Nodes > maxNodes {
		return o, fmt.Errorf("%d nodes: at most %d", j.Nodes, maxNodes)
	}
	// Polling goroutines that are more than GOMAXPROCS would wait for each other.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), j.Nodes+2)))
	memory, fd, err := j.memory()
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, unix.Munmap(memory), unix.Close(fd)) }()
	clear(memory) // takes the page faults
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	phase := shm.Word32(memory, phaseOffset)
	// It must have run, if at all, before the memory is unmapped.
	told := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { phase.Store(over); close(told) })

	ended := make(chan error, j.Nodes)
	for i := 1; i < j.Nodes; i++ {
		member := j
		member.Node = i
		if where == threads {
			n := newNode(ctx, member, memory)
			go func() { ended <- <-on(n.cpu(), n.run) }()
			continue
		}
		wait, err := startNode(ctx, member, fd)
		if err != nil {
			cancel(err)
			ended <- err
			continue
		}
		go func() {
			err := wait()
			if err != nil {
				cancel(err)
			}
			ended <- err
		}()
	}
	leader := newNode(ctx, j, memory)
	err = <-on(leader.cpu(), leader.run)
	if err != nil {
		cancel(err)
	}
	for range j.Nodes - 1 {
		if nodeErr := <-ended; err == nil || errors.Is(err, errOver) {
			err = errors.Join(nodeErr)
		}
	}
	if !stop() {
		<-told
	}
	switch {
	case b.ctx.Err() != nil:
		return o, context.Cause(b.ctx)
	case err != nil:
		return o, err
	}
	return outcomeOf(leader), nil
}

// memory makes the memory of a team: an anonymous file, of huge pages if the job says so.
func (j *job) memory() (memory []byte, fd int, err error) {
	flags := unix.MFD_CLOEXEC
	if j.Huge {
		flags |= unix.MFD_HUGETLB | unix.MFD_HUGE_2MB
	}
	if fd, err = unix.MemfdCreate("transportbench-micro", flags); err != nil {
		return nil, -1, fmt.Errorf("making the memory of a measurement: memfd_create: %w", err)
	}
	if err = unix.Ftruncate(fd, int64(j.size())); err == nil {
		memory, err = unix.Mmap(fd, 0, j.size(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, -1, errors.Join(fmt.Errorf("making the memory of a measurement: %d bytes: %w",
			j.size(), err), unix.Close(fd))
	}
	return memory, fd, nil
}

// size returns the bytes of a team's memory.
func (j *job) size() int {
	size := bodyOffset + j.Body
	if j.Huge {
		size = (size + hugePage - 1) &^ (hugePage - 1)
	}
	return size
}

// outcomeOf returns what the nodes tallied, and what node 0 measured.
func outcomeOf(leader *node) outcome {
	o := outcome{floor: leader.floor, latencies: leader.latencies}
	for i := range leader.Nodes {
		at := tallyOffset + i*tallySize
		operations, took := shm.Word64(leader.memory, at).Load(),
			shm.Word64(leader.memory, at+8).Load()
		if took > 0 {
			o.rate += float64(operations) / float64(took) * 1e9
			o.samples += int(operations)
		}
	}
	return o
}

// childVariable holds a node's job as JSON.
const childVariable = "TRANSPORTBENCH_SHM_NODE"

// The memory of a team is the first file that a process inherits besides the standard ones.
const childMemory = 3

// startNode starts a process for a node. wait returns when it has ended.
func startNode(ctx context.Context, j job, memory int) (wait func() error, err error) {
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(uintptr(memory), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "memory")
	defer file.Close()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.ExtraFiles = []*os.File{file}
	cmd.WaitDelay = endTime
	// The node ends when its standard input does: with this process at the latest.
	life, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	errors := new(tail)
	cmd.Stderr = errors
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting node %d: %w", j.Node, err)
	}
	return func() error {
		defer life.Close()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("node %d (process %d): %w: %s", j.Node, cmd.Process.Pid, err, errors)
		}
		return nil
	}, nil
}

// tail keeps the beginning of what a process writes.
type tail struct{ text []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.text = append(t.text, b[:min(len(b), 1<<10-len(t.text))]...)
	return len(b), nil
}

func (t *tail) String() string { return string(t.text) }

// Child runs a node of a measurement and returns true, if this process was started as one. Then the
// program ends. It is called before everything else in main.
func Child() bool {
	text, isNode := os.LookupEnv(childVariable)
	if !isNode {
		return false
	}
	if err := child(text); err != nil && !errors.Is(err, errOver) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func child(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	memory, err := unix.Mmap(childMemory, 0, j.size(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping the memory of a measurement: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // whoever started this process has ended
	}()
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 2)) // for that goroutine
	n := newNode(context.Background(), j, memory)
	return <-on(n.cpu(), n.run)
}

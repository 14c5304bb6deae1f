package fabrictest

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// StepsRole is the name of the role [Steps] for [Path.Instructions].
const StepsRole = "steps"

// stepOps is about how many calls the parent counts.
const stepOps = 64

// Steps returns the role of a child that makes the calls of a [Path] for a parent that counts its
// instructions.
func Steps(driver transport.Driver) Role {
	return func(parent *Parent) error {
		runtime.LockOSThread()
		var p Path
		if err := parent.Config(&p); err != nil {
			return err
		}
		t, err := p.open(driver)
		if err != nil {
			return err
		}
		var traced bool
		if err := parent.Send(unix.Gettid()); err != nil {
			return err
		}
		if err := parent.Receive(&traced); err != nil {
			return err
		}
		for range 4096 { // past the first lap of a ring
			t.trip()
		}
		runtime.Gosched() // so that no preemption is due soon
		runtime.Breakpoint()
		for range stepOps / p.Batch {
			t.trip()
		}
		runtime.Breakpoint()
		return nil
	}
}

// Instructions reports the instructions of a call with its reply; with -test.v, by function. The
// processor's own counter is closed in most virtual machines, so a child in [StepsRole] is stepped
// through. The count has no noise, and shows changes that the times of Benchmark hide.
func (p Path) Instructions(b *testing.B) {
	if runtime.GOARCH != "amd64" || Race {
		b.Skip("ptrace(2) gives registers in another way")
	}
	var steps map[string]float64
	for steps == nil {
		steps = p.countSteps(b)
	}
	sum := 0.0
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		sum += steps[name]
		if testing.Verbose() {
			b.Logf("%6.1f %s", steps[name], name)
		}
	}
	b.ReportMetric(sum, "instructions/op")
	b.ReportMetric(0, "ns/op") // would be the time of the stepping
}

// countSteps returns the instructions of a call and its reply, by function. It returns nil if the
// child's thread was about to be preempted, which it cannot be while the others are stopped.
func (p Path) countSteps(t testing.TB) map[string]float64 {
	runtime.LockOSThread() // ptrace(2) belongs to a thread
	defer runtime.UnlockOSThread()
	child := Start(t, StepsRole, p)
	defer child.Kill()
	var thread int
	child.Receive(&thread)
	defer attach(t, thread)()
	require.NoError(t, syscall.PtraceCont(thread, 0))
	child.Send(true)
	for signal := stopped(t, thread); signal != unix.SIGTRAP; signal = stopped(t, thread) {
		require.NoError(t, syscall.PtraceCont(thread, int(signal)))
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", child.PID))
	require.NoError(t, err)
	for _, task := range tasks { // Go's monitor would preempt the thread, which runs slowly
		if id, _ := strconv.Atoi(task.Name()); id != thread {
			defer attach(t, id)()
		}
	}
	steps := map[string]float64{}
	for {
		require.NoError(t, syscall.PtraceSingleStep(thread))
		require.Equal(t, unix.SIGTRAP, stopped(t, thread))
		var registers syscall.PtraceRegs
		require.NoError(t, syscall.PtraceGetRegs(thread, &registers))
		name := runtime.FuncForPC(uintptr(registers.PC())).Name()
		switch {
		case strings.HasPrefix(name, "runtime.morestack"):
			return nil
		case name != "runtime.Breakpoint" && name != "runtime.breakpoint":
			steps[name[strings.LastIndex(name, "/")+1:]] += 1.0 / stepOps
		case len(steps) > 0:
			return steps
		}
	}
}

// attach stops a thread. The child cannot end before its threads are detached.
func attach(t testing.TB, thread int) (detach func()) {
	require.NoError(t, syscall.PtraceAttach(thread))
	stopped(t, thread)
	return func() { _ = syscall.PtraceDetach(thread) }
}

// stopped waits until a traced thread has stopped, and returns the signal that stopped it.
func stopped(t testing.TB, thread int) syscall.Signal {
	var status unix.WaitStatus
	_, err := unix.Wait4(thread, &status, unix.WALL, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped(), "the child has ended")
	return status.StopSignal()
}

package inbox

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/fabric/fabrictest"
)

// stepsRole makes round trips for a parent that counts its instructions.
const stepsRole = "steps"

// stepOps is about how many round trips the parent counts, one turn of the ring.
const stepOps = 64

// pathConfig is a case of BenchmarkPath, and the config of stepsRole.
type pathConfig struct {
	Ring         string
	Batch, Bytes int
}

func stepsChild(p *fabrictest.Parent) error {
	runtime.LockOSThread()
	var c pathConfig
	if err := p.Config(&c); err != nil {
		return err
	}
	path, err := openPath(c)
	if err != nil {
		return err
	}
	var traced bool
	if err := p.Send(unix.Gettid()); err != nil {
		return err
	}
	if err := p.Receive(&traced); err != nil {
		return err
	}
	for range 4096 { // past the first lap of the ring
		path.trip()
	}
	runtime.Gosched() // so that no preemption is due soon
	runtime.Breakpoint()
	for range stepOps / c.Batch {
		path.trip()
	}
	runtime.Breakpoint()
	return nil
}

// countSteps returns the instructions of a call and its reply, by function. The processor's own
// counter is closed in most virtual machines, so a child process is stepped through. The count has
// no noise, and shows changes that BenchmarkPath's times hide.
func countSteps(t testing.TB, c pathConfig) (steps map[string]float64) {
	for steps == nil {
		steps = tryCountSteps(t, c)
	}
	return steps
}

// tryCountSteps is countSteps. It returns nil if the child's thread was about to be preempted,
// which it cannot be while the others are stopped.
func tryCountSteps(t testing.TB, c pathConfig) map[string]float64 {
	runtime.LockOSThread() // ptrace(2) belongs to a thread
	defer runtime.UnlockOSThread()
	child := fabrictest.Start(t, stepsRole, c)
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

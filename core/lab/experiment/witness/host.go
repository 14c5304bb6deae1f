package witness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/transport"
)

// Host is where an end of a tool runs: [Local], or another host through its agent.
type Host interface {
	// Witness takes one step of a measurement. It blocks until that is done or ctx ends.
	Witness(ctx context.Context, r Request) (Reply, error)
}

// Step is what a [Request] asks for.
type Step string

// The steps.
const (
	StepFind  Step = "find"  // the tool's version
	StepPort  Step = "port"  // a free port
	StepServe Step = "serve" // run the server until ctx ends, or until it ends by itself
	StepCall  Step = "call"  // run the client once
	StepRest  Step = "rest"  // as Rest of Local
)

// Request asks a [Host] for a step.
type Request struct {
	Step Step `json:"step"`
	Load Load `json:"load"`
	Port int  `json:"port,omitempty"` // of the server
}

// Reply is the answer to a [Request].
type Reply struct {
	Version string          `json:"version,omitempty"`
	Port    int             `json:"port,omitempty"`
	Reading transport.Floor `json:"reading,omitzero"`
}

// Local runs tools on this host. The zero value runs those of media.
type Local struct {
	// References are what the transport declares.
	References []transport.Reference
	// running is held by those who wait for a command, and by StepRest alone.
	running sync.RWMutex
}

// Witness implements [Host].
func (l *Local) Witness(ctx context.Context, r Request) (Reply, error) {
	return l.Take(ctx, l.References, r)
}

// Take takes a step with what a transport declares. The command line comes from this host's own
// plugin or from the table of media: a request chooses the tool by the load, and fills in names,
// numbers and addresses.
func (l *Local) Take(ctx context.Context, references []transport.Reference, r Request) (
	reply Reply, err error,
) {
	if err := r.check(); err != nil {
		return Reply{}, err
	}
	t, err := referenceFor(references, &r.Load)
	if err != nil {
		return Reply{}, err
	}
	if r.Step == StepRest {
		l.Rest()
		return Reply{}, nil
	}
	l.running.RLock()
	defer l.running.RUnlock()
	switch r.Step {
	case StepFind:
		if _, err := exec.LookPath(t.Tool); err != nil {
			return Reply{}, errors.New(absent(t))
		}
		reply.Version = readVersion(ctx, t)
	case StepPort:
		reply.Port, err = freePort()
	case StepServe:
		server, _ := lines(t, &r.Load, r.Port)
		_, err = runTool(ctx, server)
	case StepCall:
		_, client := lines(t, &r.Load, r.Port)
		output, failure := runTool(ctx, client)
		if failure != nil {
			return Reply{}, fmt.Errorf("%s: %w: %s", t.Tool, failure, lastLine(output))
		}
		// A tool may end with 0 though it found no server.
		reply.Reading, err = read(t, &r.Load, output)
	default:
		err = fmt.Errorf("%q is no step of a reference tool", r.Step)
	}
	return reply, err
}

// Rest waits until all commands that were told to end have ended.
func (l *Local) Rest() {
	l.running.Lock()
	defer l.running.Unlock()
}

// word is what may stand in an argument or a variable of a tool: no option, and no list of
// commands.
var word = regexp.MustCompile(`^([A-Za-z0-9_.:^\\][-A-Za-z0-9_.:,/@^\\=]*)?$`)

// check refuses a load that has more than names, numbers and addresses.
func (r *Request) check() error {
	words := []string{r.Load.Provider, r.Load.Address, r.Load.Streams}
	for _, end := range []*End{&r.Load.Daemon, &r.Load.Client} {
		words = slices.AppendSeq(words, maps.Values(end.Reference))
	}
	for _, w := range words {
		if !word.MatchString(w) {
			return fmt.Errorf("%q cannot be passed to a reference tool", w)
		}
	}
	return nil
}

// runTool runs a command until it ends, or ctx. It returns what the command printed.
func runTool(ctx context.Context, line []string) ([]byte, error) {
	// The kernel ends the command with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return command(ctx, line).CombinedOutput()
}

// command returns a command of a process group of its own, so that Ctrl-C reaches only this
// program, which then ends it.
func command(ctx context.Context, line []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	// fi_pingpong removes its files in /dev/shm if it is asked to end, and not if it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	return cmd
}

// onCPU returns a command line that runs on one processor.
func onCPU(cpu int, line []string) []string {
	if cpu < 0 {
		return line
	}
	return append([]string{"taskset", "-c", strconv.Itoa(cpu)}, line...)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// lastLine returns the last line of a tool that is neither empty nor a rule.
func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimRight(string(output), "- \n"), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

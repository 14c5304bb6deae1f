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

// Local runs tools on this host. The zero value is ready to use.
type Local struct {
	custom *tool // instead of the load's
	// running is held by those who wait for a command, and by StepRest alone.
	running sync.RWMutex
}

// Witness implements [Host]. The command line comes from this program's own table: a request
// chooses the tool by the load, and fills in names, numbers and addresses.
func (l *Local) Witness(ctx context.Context, r Request) (reply Reply, err error) {
	if err := r.check(); err != nil {
		return Reply{}, err
	}
	t := l.custom
	if t == nil {
		if t, err = toolFor(&r.Load); err != nil {
			return Reply{}, err
		}
	}
	if r.Step == StepRest {
		l.Rest()
		return Reply{}, nil
	}
	l.running.RLock()
	defer l.running.RUnlock()
	switch r.Step {
	case StepFind:
		if _, err := exec.LookPath(t.name); err != nil {
			return Reply{}, errors.New(t.absent())
		}
		reply.Version = t.readVersion(ctx)
	case StepPort:
		reply.Port, err = freePort()
	case StepServe:
		server, _ := t.lines(&r)
		_, err = runTool(ctx, server)
	case StepCall:
		_, client := t.lines(&r)
		output, failure := runTool(ctx, client)
		if failure != nil {
			return Reply{}, fmt.Errorf("%s: %w: %s", t.name, failure, lastLine(output))
		}
		// A tool may end with 0 though it found no server.
		reply.Reading, err = t.reading(&r.Load, output)
	default:
		err = fmt.Errorf("%q is no step of a witness", r.Step)
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
	words := []string{r.Load.Provider, r.Load.Address}
	// that the tools get
	for _, option := range []string{"address", "net-devices", "sockets", "tls"} {
		words = append(words, r.Load.Options[option])
	}
	for _, end := range []*End{&r.Load.Daemon, &r.Load.Client} {
		if end.Port != nil {
			words = append(words, end.Port.Device, end.Port.Facts[transport.FactGIDIndex])
		}
	}
	for _, w := range words {
		if !word.MatchString(w) {
			return fmt.Errorf("%q cannot be passed to a benchmark of the field", w)
		}
	}
	return nil
}

// lines returns the whole command lines of the server and of the client, which a user can repeat.
func (t *tool) lines(r *Request) (server, client []string) {
	server, client = t.commands(&r.Load, strconv.Itoa(r.Port))
	environment := t.environment(&r.Load)
	return onCPU(r.Load.Daemon.CPU, within(environment, server)),
		onCPU(r.Load.Client.CPU, within(environment, client))
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

// within returns a command line that runs with variables of the environment, so that a user can
// repeat it.
func within(environment map[string]string, line []string) []string {
	if len(environment) == 0 {
		return line
	}
	whole := []string{"env"}
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		whole = append(whole, name+"="+environment[name])
	}
	return append(whole, line...)
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

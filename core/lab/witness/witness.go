package witness

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/lab/result"
	"transportbench/core/transport"
)

// Load is what a witness has to measure.
type Load struct {
	// Transport, Provider and Medium are those of the run, and Options the options of the transport,
	// with what it chose for those that left the choice to it.
	Transport, Provider, Medium string
	Options                     map[string]string
	// Port is the port of an RDMA device that the run opened, or nil.
	Port *transport.Path
	// Size is the number of payload bytes of the larger message of a call, Smaller that of the other, and
	// InFlight the calls that a client and a daemon have in flight.
	Size, Smaller, InFlight int
	// DaemonCPU and ClientCPU are the processors of the pair; -1 for any.
	DaemonCPU, ClientCPU int
}

// Witness is a tool and how it is run.
type Witness struct {
	tool     *tool
	load     Load
	version  string
	patience time.Duration // with one reading
	client   []string      // the last command line
	server   []string
}

// Find returns the witness of a load, or the reason why there is none, in one line with the remedy.
func Find(ctx context.Context, load Load) (w *Witness, missing string) {
	at := slices.IndexFunc(tools, func(t tool) bool { return t.measures(&load) })
	if at < 0 {
		return nil, "no benchmark of the field measures " + load.describe()
	}
	t := &tools[at]
	if _, err := exec.LookPath(t.name); err != nil {
		return nil, t.absent()
	}
	return &Witness{tool: t, load: load, version: t.readVersion(ctx), patience: patience}, ""
}

// absent says that the tool is not installed.
func (t *tool) absent() string {
	return fmt.Sprintf("%s is not installed: apt install %s", t.name, t.pkg)
}

func (l *Load) describe() string {
	over := l.Medium
	if over == "" {
		over = l.Provider
	}
	if l.InFlight > 1 {
		return fmt.Sprintf("%d messages in flight of %s over %s", l.InFlight, l.Transport, over)
	}
	return fmt.Sprintf("round trips of %s over %s", l.Transport, over)
}

// Result returns the tool, its version and its last command lines.
func (w *Witness) Result() *result.Witness {
	return &result.Witness{Tool: w.tool.name, Version: w.version, Server: slices.Clone(w.server), Client: slices.Clone(w.client)}
}

// patience bounds a reading. The server of a tool takes a moment until it listens, so the client is
// started again until then.
const (
	patience = 20 * time.Second
	again    = 20 * time.Millisecond
)

var errServerEnded = errors.New("its server has ended")

// Measure takes one reading, which takes up to about a second: a round trip, or with several messages
// in flight the time per message. No process is left when it returns.
func (w *Witness) Measure(ctx context.Context) (transport.Floor, error) {
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	port, err := freePort()
	if err != nil {
		return transport.Floor{}, err
	}
	// The kernel ends the tools with the thread that started them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	server, client := w.tool.commands(&w.load, strconv.Itoa(port))
	environment := w.tool.environment(&w.load)
	w.server = onCPU(w.load.DaemonCPU, within(environment, server))
	w.client = onCPU(w.load.ClientCPU, within(environment, client))

	serving, stop := context.WithCancel(ctx)
	s := command(serving, w.server)
	if err := s.Start(); err != nil {
		stop()
		return transport.Floor{}, fmt.Errorf("%s: %w", w.tool.name, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = s.Wait() // it was killed, has ended with its client, or refuses its options
		close(ended)
	}()
	defer func() {
		stop()
		<-ended
	}()
	var last error // that is not of the timeout
	for {
		output, err := command(ctx, w.client).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", w.tool.name, err, lastLine(output))
		} else {
			// A tool may end with 0 though it found no server.
			var reading transport.Floor
			if reading, err = w.tool.reading(&w.load, output); err == nil {
				return reading, enough(reading)
			}
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ended:
			if ctx.Err() == nil {
				return transport.Floor{}, fmt.Errorf("%w; %w", last, errServerEnded)
			}
		case <-time.After(again):
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return transport.Floor{}, ctx.Err()
			}
			if last == nil {
				last = fmt.Errorf("%s did not end", w.tool.name)
			}
			return transport.Floor{}, fmt.Errorf("%w; it had %v", last, w.patience)
		}
	}
}

// command returns a command of a process group of its own, so that Ctrl-C reaches only this program,
// which then ends it.
func command(ctx context.Context, line []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	// fi_pingpong removes its files in /dev/shm if it is asked to end, and not if it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(unix.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	return cmd
}

// within returns a command line that runs with variables of the environment, so that a user can repeat it.
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

// leastSamples is the least number of messages of a reading: of fewer, one disturbance is all of it.
const leastSamples = 10

func enough(f transport.Floor) error {
	if f.Samples < leastSamples {
		return fmt.Errorf("%s: %d messages are too few for a reading", f.Name, f.Samples)
	}
	return nil
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

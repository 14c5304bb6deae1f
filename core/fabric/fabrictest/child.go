package fabrictest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// roleVariable makes the test binary a child. Its value is an assignment, as JSON.
const roleVariable = "FABRICTEST_ROLE"

// assignment tells a child what to do.
type assignment struct {
	Role   string          `json:"role"`
	Config json.RawMessage `json:"config"`
}

// Role is what a child process does. It ends with the function.
type Role func(*Parent) error

// RunChild plays the role for which [Start] has started this process, and reports whether Start
// has. TestMain calls it first, and returns if it returns true. An error of the role goes to
// standard error and ends the process with status 1.
func RunChild(roles map[string]Role) bool {
	text := os.Getenv(roleVariable)
	if text == "" {
		return false
	}
	if err := play(text, roles); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func play(text string, roles map[string]Role) error {
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	role := roles[a.Role]
	if role == nil {
		return fmt.Errorf("this test binary has no role %q", a.Role)
	}
	return role(&Parent{config: a.Config, in: bufio.NewReader(os.Stdin),
		out: json.NewEncoder(os.Stdout)})
}

// Parent is the test that has started a child, as the child sees it.
type Parent struct {
	config json.RawMessage
	in     *bufio.Reader
	out    *json.Encoder
}

// Config decodes the config of [Start] into v.
func (p *Parent) Config(v any) error { return json.Unmarshal(p.config, v) }

// Send sends v to the parent's Receive.
func (p *Parent) Send(v any) error { return p.out.Encode(v) }

// Receive waits for what the parent sends and decodes it into v. It returns io.EOF once the parent
// has called Close.
func (p *Parent) Receive(v any) error { return receive(p.in, v) }

// Ended returns a flag that becomes true once the parent has called Close. Do not call Receive
// afterwards.
func (p *Parent) Ended() *atomic.Bool {
	ended := new(atomic.Bool)
	go func() {
		_, _ = io.Copy(io.Discard, p.in)
		ended.Store(true)
	}()
	return ended
}

func receive(from *bufio.Reader, v any) error {
	line, err := from.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("unexpected line %q: %w", line, err)
	}
	return nil
}

// Child is this test binary in another process.
type Child struct {
	PID int

	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start starts this test binary again, in a role of [RunChild]. config is any value that
// [Parent.Config] can decode. The child ends with the test. The options may change its command.
func Start(t testing.TB, role string, config any, options ...func(*exec.Cmd)) *Child {
	t.Helper()
	encoded, err := json.Marshal(config)
	require.NoError(t, err)
	text, err := json.Marshal(assignment{Role: role, Config: encoded})
	require.NoError(t, err)
	c := &Child{t: t, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+string(text),
		// as for the plugins, for the libraries that take EINTR for an error
		"GODEBUG=asyncpreemptoff=1",
		"GORACE=atexit_sleep_ms=0") // the race detector would wait for a second
	c.cmd.Stderr = os.Stderr
	for _, o := range options {
		o(c.cmd)
	}
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.out = bufio.NewReader(out)
	require.NoError(t, c.cmd.Start())
	c.PID = c.cmd.Process.Pid
	t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	return c
}

// Send sends v to the child's Receive.
func (c *Child) Send(v any) {
	c.t.Helper()
	line, err := json.Marshal(v)
	require.NoError(c.t, err)
	_, err = c.in.Write(append(line, '\n'))
	require.NoError(c.t, err)
}

// Receive waits for what the child sends and decodes it into v.
func (c *Child) Receive(v any) {
	c.t.Helper()
	require.NoError(c.t, c.Read(v), "the child ended, or sent something else")
}

// Read is Receive for any goroutine. It returns its error.
func (c *Child) Read(v any) error { return receive(c.out, v) }

// Rest returns what the child has written to its standard output besides what it sent, once it has
// ended.
func (c *Child) Rest() string {
	c.t.Helper()
	rest, err := io.ReadAll(c.out)
	require.NoError(c.t, err)
	return string(rest)
}

// Close ends the child's standard input; see [Parent.Ended].
func (c *Child) Close() {
	c.t.Helper()
	require.NoError(c.t, c.in.Close())
}

// Wait waits until the child ends, which must be without an error.
func (c *Child) Wait() {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Wait())
}

// Kill kills the child and waits for its end: some libraries take a zombie for alive. It returns
// the exit code: -1, unless the child had ended by itself.
func (c *Child) Kill() (code int) {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Kill())
	require.Error(c.t, c.cmd.Wait())
	return c.cmd.ProcessState.ExitCode()
}

// Pause stops all threads of the child until Resume.
func (c *Child) Pause() {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(unix.SIGSTOP))
	// Until it has stopped, a thread on another processor may still answer.
	require.NoError(c.t, unix.Waitid(unix.P_PID, c.PID, nil, unix.WSTOPPED, nil))
}

// Resume ends a Pause.
func (c *Child) Resume() {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGCONT))
}

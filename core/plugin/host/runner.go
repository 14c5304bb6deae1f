package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"

	"transportbench/core/plugin/enter"
	"transportbench/core/plugin/internal/wire"
)

// pluginRunner starts and ends one plugin process for go-plugin.
type pluginRunner struct {
	plugin *Plugin
	sha256 string
	cmd    *exec.Cmd
	output *tail

	parent *os.File // the pipe whose end tells the plugin that this host is gone
	stdout *handshakeReader
	stderr *endReader
	// exited is closed once the process is reaped and all its standard error is read.
	exited chan struct{}

	mu       sync.Mutex // orders Kill and Start
	sockets  string     // go-plugin's directory for the process's socket
	child    *child
	killed   bool
	signaled bool // Kill has sent its signal to a process that had not ended
}

var _ runner.Runner = (*pluginRunner)(nil)

func newRunner(p *Plugin, sum, space string, env []string) *pluginRunner {
	cmd := exec.Command(p.Path, "serve")
	cmd.Env = env
	enter.InSpace(cmd, space)
	return &pluginRunner{plugin: p, sha256: sum, cmd: cmd, output: &tail{},
		exited: make(chan struct{})}
}

// adopt makes r the runner of a go-plugin client, which adds variables to the environment and has
// made the directory sockets.
func (r *pluginRunner) adopt(_ hclog.Logger, spec *exec.Cmd, sockets string) (runner.Runner,
	error) {
	r.mu.Lock()
	r.sockets = sockets
	r.mu.Unlock()
	r.cmd.Env = append(r.cmd.Env, spec.Env...)
	return r, nil
}

var errKilled = errors.New("killed before it started")

// Start implements [runner.Runner], as do the methods below.
func (r *pluginRunner) Start(context.Context) error {
	if err := r.verify(); err != nil {
		return err
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	r.cmd.ExtraFiles = []*os.File{theirs}
	r.cmd.Env = append(r.cmd.Env, wire.EnvParent+"="+strconv.Itoa(firstExtraFile))

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.killed {
		ours.Close()
		return errKilled
	}
	c, err := startChild(r.cmd)
	if err != nil {
		ours.Close()
		return startError(r.plugin.Name, r.plugin.Path, err)
	}
	r.child, r.parent = c, ours
	r.stdout = &handshakeReader{source: c.stdout, rest: r.output}
	r.stderr = &endReader{source: c.stderr, ended: make(chan struct{})}
	go r.watch()
	return nil
}

// firstExtraFile is the descriptor of ExtraFiles[0].
const firstExtraFile = 3

// verify checks that the file still has the digest that the host read before.
func (r *pluginRunner) verify() error {
	found := fingerprintOf(r.plugin.Path, r.plugin.now())
	if seen := r.plugin.seen.Load(); seen != nil && seen.same(found) {
		return nil
	}
	sum, err := sha256Of(r.plugin.Path)
	if err != nil {
		return fmt.Errorf("plugin %s: %w", r.plugin.Name, err)
	}
	if sum != r.sha256 {
		return fmt.Errorf(
			"plugin %s: %s has changed since this command started: run the command again",
			r.plugin.Name, r.plugin.Path)
	}
	r.plugin.see(found) // after a build the first fingerprint cannot be trusted, but this one may
	return nil
}

func (r *pluginRunner) watch() {
	<-r.child.exited
	<-r.stderr.ended
	r.parent.Close()
	close(r.exited)
}

func (r *pluginRunner) Wait(context.Context) error {
	<-r.child.exited
	if !r.child.success() {
		return errors.New(r.child.state())
	}
	return nil
}

// endingGrace is how long Kill waits for a process whose output has ended, which the kernel does
// while it ends the process.
const endingGrace = 200 * time.Millisecond

// Kill sends SIGKILL to the process group. If the process has not started, it never will.
func (r *pluginRunner) Kill(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.killed = true
	if r.child == nil {
		return nil
	}
	if r.stdout.empty.Load() {
		waitFor(r.child.exited, endingGrace)
	}
	select {
	case <-r.child.exited:
	default:
		r.signaled = true
	}
	r.child.kill() // the group may have more processes
	return nil
}

// started returns the process, or nil if it was never started.
func (r *pluginRunner) started() *child {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.child
}

// removeSockets removes the directory with the process's socket from dir.
func (r *pluginRunner) removeSockets(dir *runDir) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sockets != "" {
		_ = dir.root.RemoveAll(filepath.Base(r.sockets))
	}
}

// killSent reports whether Kill has sent its signal to a process that had not ended.
func (r *pluginRunner) killSent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signaled
}

func (r *pluginRunner) Stdout() io.ReadCloser { return r.stdout }
func (r *pluginRunner) Stderr() io.ReadCloser { return r.stderr }
func (r *pluginRunner) Name() string          { return r.plugin.Path }

func (r *pluginRunner) ID() string {
	if c := r.started(); c != nil {
		return strconv.Itoa(c.pid)
	}
	return ""
}

// Diagnose returns nothing: launch.fail explains a failed start.
func (r *pluginRunner) Diagnose(context.Context) string { return "" }

func (r *pluginRunner) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (r *pluginRunner) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"transportbench/core/base/machine"
	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/plugin"
	"transportbench/core/plugin/internal/accept"
)

// reapTimeout bounds the time from SIGKILL to the end of a process, and from an order to the
// keeper's report. It is a variable for tests.
var reapTimeout = 5 * time.Second

const (
	// describeTimeout bounds `describe`, which touches no hardware and takes milliseconds. Waiting
	// for a processor or a disk does not count, up to describeLimit in all.
	describeTimeout = 2 * time.Second
	describeLimit   = 10 * time.Second
	// describeMax is the largest size of a description in bytes.
	describeMax = 1 << 20
)

// describeTries is how often a plugin is asked that dies or does not answer. A signal of another
// program, or a stall of the machine, should not cost a run its transport.
const describeTries = 2

// undescribed reports whether err, of [Plugin.Describe], means that the plugin died or timed out on
// every attempt. That says nothing about what it is and whether it can run here.
func undescribed(err error) bool {
	var died *record.ExitError
	return errors.As(err, &died) || errors.Is(err, context.DeadlineExceeded)
}

// Describe runs the plugin with `describe` and returns its description. It asks a plugin again that
// dies or does not answer within describeTimeout, and returns soon after describeLimit, or after
// ctx ends.
func (p *Plugin) Describe(ctx context.Context) (plugin.Description, error) {
	return p.describeWithin(ctx, describeTimeout)
}

func (p *Plugin) describeWithin(ctx context.Context, limit time.Duration) (plugin.Description,
	error) {
	ctx, cancel := context.WithTimeoutCause(ctx, describeLimit, noAnswer(fmt.Sprintf(
		"%v, most of which it waited for a processor or a disk: try again when the machine is "+
			"less busy", describeLimit)))
	defer cancel()
	output, err := p.describe(ctx, limit)
	for try := 1; try < describeTries && undescribed(err) && ctx.Err() == nil; try++ {
		output, err = p.describe(ctx, limit)
	}
	if err != nil {
		return plugin.Description{}, err
	}
	return p.parseDescription(output)
}

// noAnswer is the error of a plugin that did not answer within a time.
type noAnswer string

func (n noAnswer) Error() string { return "no answer within " + string(n) }

// Is makes it a [context.DeadlineExceeded].
func (noAnswer) Is(target error) bool { return target == context.DeadlineExceeded }

// describe returns the output of `describe`.
func (p *Plugin) describe(ctx context.Context, limit time.Duration) ([]byte, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var output []byte
	err := p.run(ctx, 0, func(c *child) {
		go func() {
			if machine.UsesUp(ctx, c.pid, limit) {
				end(noAnswer(limit.String()))
			}
		}()
		output, _ = io.ReadAll(io.LimitReader(c.stdout, describeMax+1))
		if len(output) > describeMax {
			c.kill()
		}
	}, "describe")
	switch {
	case len(output) > describeMax:
		return nil, notAPlugin(p, "printed more than 1 MiB")
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("plugin %s: its `describe` was killed: %w", p.Name, err)
	}
	return output, err
}

// run runs the plugin with args and calls read for its standard output. It returns once the process
// has ended and all output is read. When ctx ends, run sends SIGTERM and, after grace, SIGKILL to
// the process group.
func (p *Plugin) run(ctx context.Context, grace time.Duration, read func(*child),
	args ...string) error {
	if err := p.check(); err != nil {
		return err
	}
	cmd := exec.Command(p.Path, args...)
	cmd.Env = pluginEnvironment(os.Environ())
	c, err := startChild(cmd)
	if err != nil {
		return startError(p.Name, p.Path, err)
	}
	defer c.stdout.Close()
	defer c.stderr.Close()
	var errorOutput tail
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(&errorOutput, c.stderr) })
	reading.Go(func() { read(c) })

	select {
	case <-c.exited:
	case <-ctx.Done():
		if grace > 0 {
			c.signal(unix.SIGTERM)
			waitFor(c.exited, grace)
		}
		c.kill()
	}
	stuck := awaitExit(c)
	reading.Wait()
	switch {
	case stuck != nil:
		return fmt.Errorf("plugin %s: %w", p.Name, stuck)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !c.success():
		return exitError(p.Name, c, &errorOutput)
	}
	return nil
}

// awaitExit waits for the end of a killed process and of those that plugins left. If that takes
// longer than reapTimeout, it kills the keeper, which either hangs or cannot reap the process.
func awaitExit(c *child) error {
	usedUp, stop := c.keeper.usedUp(c.pid, c.keeper.cmd.Process.Pid)
	defer stop()
	select {
	case <-c.exited:
		if len(c.survivors) > 0 {
			return fmt.Errorf(
				"plugins left processes that do not die: %v; see their /proc/PID/status",
				c.survivors)
		}
		return nil
	case <-usedUp:
	}
	c.keeper.kill()
	if !waitFor(c.exited, c.keeper.reap) { // the output may never end
		_ = c.stdout.SetReadDeadline(time.Now())
		_ = c.stderr.SetReadDeadline(time.Now())
	}
	return fmt.Errorf("process %d did not die: %w; if the process still exists, it hangs in the "+
		"kernel: see /proc/%d/stack as root",
		c.pid, c.keeper.hangs(), c.pid)
}

func (p *Plugin) parseDescription(output []byte) (plugin.Description, error) {
	// A native library may have printed lines before.
	lines := bytes.Split(bytes.TrimSpace(output), []byte{'\n'})
	last := lines[len(lines)-1]
	var d plugin.Description
	if !json.Valid(last) || !bytes.HasPrefix(last, []byte("{")) {
		return d, notAPlugin(p, fmt.Sprintf("printed %q", abbreviate(string(last))))
	}
	if err := accept.Decode(last, "description", &d); err != nil {
		return d, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	return d, p.checkDescription(&d)
}

// checkDescription makes the strings of d printable. It returns an error if the plugin speaks
// another protocol version, if it is another transport than its file's name says, or if d is
// impossible.
func (p *Plugin) checkDescription(d *plugin.Description) error {
	printable.Strings(d)
	if err := checkProtocol(p.Name, d.ProtocolVersion); err != nil {
		return err
	}
	if d.Info.Name != p.Name {
		return fmt.Errorf("plugin %s: %s is the transport %q: call the file transport-%s", p.Name,
			p.Path, d.Info.Name, d.Info.Name)
	}
	if err := accept.Info(&d.Info); err != nil {
		return fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	return nil
}

// checkProtocol returns an error if the plugin called name speaks another version of the control
// protocol than this host.
func checkProtocol(name string, version int) error {
	if version == plugin.ProtocolVersion {
		return nil
	}
	return fmt.Errorf("plugin %s speaks version %d of the control protocol, this host version "+
		"%d: build both from one version",
		name, version, plugin.ProtocolVersion)
}

var errNotAPlugin = errors.New("not a transportbench plugin")

func notAPlugin(p *Plugin, evidence string) error {
	return fmt.Errorf("plugin %s: %s is %w: its `describe` %s", p.Name, p.Path, errNotAPlugin,
		evidence)
}

// abbreviate makes one short printable line of any output.
func abbreviate(text string) string {
	const longest = 120
	text = printable.Text(strings.Join(strings.Fields(text), " "))
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "..."
	}
	return text
}

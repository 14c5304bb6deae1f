package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// microGrace is how long a plugin may take to end after SIGTERM.
const microGrace = 5 * time.Second

// Micro runs the plugin's microbenchmarks and calls report with each result as it arrives. It ends
// when ctx ends.
func (p *Plugin) Micro(ctx context.Context, request plugin.MicroRequest, report func(transport.Measurement) error) error {
	if err := p.check(); err != nil {
		return err
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, p.Path, "micro", string(text))
	cmd.Env = pluginEnvironment(os.Environ())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = microGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	var errorOutput bytes.Buffer
	cmd.Stderr = &errorOutput
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return startError(p.Name, p.Path, err)
	}
	reportErr := readAnswers(bufio.NewScanner(out), report)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case reportErr != nil:
		return fmt.Errorf("plugin %s: %w", p.Name, reportErr)
	case err != nil:
		return fmt.Errorf("plugin %s: `micro` ended with %w: %s", p.Name, err, abbreviate(errorOutput.String()))
	}
	return nil
}

func readAnswers(lines *bufio.Scanner, report func(transport.Measurement) error) error {
	for lines.Scan() {
		var a plugin.MicroAnswer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // printed by a native library
		}
		if a.Error != "" {
			return errors.New(a.Error)
		}
		if err := report(a.Measurement); err != nil {
			return err
		}
	}
	return lines.Err()
}

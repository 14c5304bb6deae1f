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

// microGrace is what a plugin has to end by itself when it is asked to.
const microGrace = 5 * time.Second

// Micro has the plugin take microbenchmarks and reports each as it is there. It ends
// when ctx does.
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
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return startError(p.Name, p.Path, err)
	}
	told := readAnswers(bufio.NewScanner(out), report)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case told != nil:
		return fmt.Errorf("plugin %s: %w", p.Name, told)
	case err != nil:
		return fmt.Errorf("plugin %s: `micro` ended with %w: %s", p.Name, err, abbreviate(complaints.String()))
	}
	return nil
}

func readAnswers(lines *bufio.Scanner, report func(transport.Measurement) error) error {
	for lines.Scan() {
		var a plugin.MicroAnswer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // a native library had something to say
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

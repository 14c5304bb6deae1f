package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"transportbench/core/base/printable"
	"transportbench/core/plugin"
	"transportbench/core/transport"
)

// microGrace is how long a plugin may take to end after SIGTERM.
const microGrace = 5 * time.Second

// Micro runs the plugin's microbenchmarks and calls report with each result as it arrives. It ends
// when ctx ends.
func (p *Plugin) Micro(ctx context.Context, request plugin.MicroRequest, report func(transport.Measurement) error) error {
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var readErr error
	err = p.run(ctx, microGrace, func(c *child) {
		if readErr = readAnswers(bufio.NewScanner(c.stdout), report); readErr != nil {
			c.kill()
		}
	}, "micro", string(text))
	if readErr != nil && ctx.Err() == nil {
		return fmt.Errorf("plugin %s: %w", p.Name, readErr)
	}
	return err
}

func readAnswers(lines *bufio.Scanner, report func(transport.Measurement) error) error {
	for lines.Scan() {
		var a plugin.MicroAnswer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // printed by a native library
		}
		printable.Strings(&a)
		if a.Error != "" {
			return errors.New(a.Error)
		}
		if err := report(a.Measurement); err != nil {
			return err
		}
	}
	return lines.Err()
}

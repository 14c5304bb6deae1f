package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"transportbench/core/base/printable"
	"transportbench/core/base/record"
	"transportbench/core/plugin/internal/accept"
)

// microGrace is how long a plugin may take to end after SIGTERM.
const microGrace = 5 * time.Second

// Micro runs the plugin's microbenchmarks and calls report with each answer as it arrives. It ends
// when ctx ends.
func (p *Plugin) Micro(ctx context.Context, request record.MicroRequest,
	report func(record.MicroAnswer) error) error {
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

// maxMeasurements bounds the readings of one call of `micro`.
const maxMeasurements = 1 << 16

func readAnswers(lines *bufio.Scanner, report func(record.MicroAnswer) error) error {
	for n := 0; lines.Scan(); {
		line := lines.Bytes()
		if !bytes.HasPrefix(line, []byte("{")) || !json.Valid(line) {
			continue // printed by a native library
		}
		var a record.MicroAnswer
		if err := accept.Decode(line, "measurement", &a); err != nil {
			return err
		}
		printable.Strings(&a)
		if a.Invalid != nil {
			return a.Invalid
		}
		if a.Error != "" {
			return errors.New(a.Error)
		}
		err := accept.Measurement(&a.Measurement)
		if a.Setup != nil {
			err = accept.Setup(a.Setup)
		}
		if err != nil {
			return err
		}
		if n++; n > maxMeasurements {
			return &record.InvalidError{Field: "measurement", Value: strconv.Itoa(n) + " readings",
				Bound: fmt.Sprintf("at most %d", maxMeasurements)}
		}
		if err := report(a); err != nil {
			return err
		}
	}
	if err := lines.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return &record.InvalidError{Field: "measurement", Value: "a line that is too long",
		Bound: fmt.Sprintf("at most %d bytes", bufio.MaxScanTokenSize)}
}

package transporttest

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"transportbench/core/transport"
)

// ForbidSkips is the name of an environment variable that turns every skip into a failure, unless
// it is empty.
const ForbidSkips = "TRANSPORTBENCH_FORBID_SKIPS"

// Suite is the configuration of a test. Only Driver is required.
type Suite struct {
	Driver transport.Driver
	// Options are the transport's options, as on the command line.
	Options map[string]string
	// MaxPayload is the size in bytes of the largest payload to send, at least 64; 0 is 64 KiB.
	// The transport's limit applies as well.
	MaxPayload int
	// InFlight is the Config.InFlight of the transports; 0 is 16.
	InFlight int
	// Timeout limits each clause; 0 is 10 seconds.
	Timeout time.Duration
	// Kill ends a rank without a farewell to its peers, as similar to the death of its process as
	// possible. Afterwards only Close is called on the transport. Without Kill, the suite loses
	// peers by Close only.
	Kill func(transport.Transport)
	// Skip has the clauses to skip, by name, each with its reason. The suite prints the reason, and
	// fails if [ForbidSkips] is set.
	Skip map[string]string
}

func (s *Suite) timeout() time.Duration {
	if s.Timeout == 0 {
		return 10 * time.Second
	}
	return s.Timeout
}

// Run runs every clause as a subtest of t. It leaves out clauses about features that the transport
// does not declare; those do not count as skipped.
func Run(t *testing.T, s Suite) {
	t.Helper()
	forbidden := os.Getenv(ForbidSkips) != ""
	for name, reason := range s.Skip {
		if err := checkSkip(name, reason); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := survey(&s)
	if errors.Is(err, transport.ErrUnavailable) {
		skip(t, forbidden, err.Error())
		return
	}
	if err != nil {
		t.Fatalf("opening one rank to read what the transport declares: %v", err)
	}
	var undeclared []string
	for _, c := range clauses() {
		if missing := c.missing(tr); missing != "" {
			undeclared = append(undeclared, fmt.Sprintf("%s (%s)", c.name, missing))
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			if reason, skipped := s.Skip[c.name]; skipped {
				skip(t, forbidden, reason)
				return
			}
			if failed, lines := try(&s, tr, c); failed {
				t.Errorf("%s: %s\n%s", c.name, c.says, strings.Join(lines, "\n"))
			}
		})
	}
	if len(undeclared) > 0 {
		t.Logf("not run, because not declared: %s", strings.Join(undeclared, ", "))
	}
}

// RunClause runs one clause of the suite and returns its report if it fails. It is for tests that
// require the suite to find a fault. It returns an error if there is no such clause, or if it is
// about a feature that the transport does not declare.
func RunClause(s Suite, name string) (failed bool, report string, err error) {
	tr, err := survey(&s)
	if err != nil {
		return false, "", err
	}
	c, err := clauseNamed(name)
	if err != nil {
		return false, "", err
	}
	if missing := c.missing(tr); missing != "" {
		return false, "", fmt.Errorf("clause %q would not run: the transport lacks %s",
			name, missing)
	}
	failed, lines := try(&s, tr, c)
	return failed, strings.Join(lines, "\n"), nil
}

func skip(t *testing.T, forbidden bool, reason string) {
	t.Helper()
	if forbidden {
		t.Errorf("%s forbids skips, and this clause was skipped: %s", ForbidSkips, reason)
		return
	}
	t.Skip(reason)
}

func checkSkip(name, reason string) error {
	if _, err := clauseNamed(name); err != nil {
		return fmt.Errorf("Suite.Skip: %w", err)
	}
	if strings.TrimSpace(reason) == "" {
		return fmt.Errorf("Suite.Skip: clause %q needs a reason", name)
	}
	return nil
}

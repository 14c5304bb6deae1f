package transporttest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"transportbench/core/transport"
)

// ForbidSkips names the environment variable that, when not empty, turns every
// skip into a failure.
const ForbidSkips = "TRANSPORTBENCH_FORBID_SKIPS"

// Suite says what to test. Driver alone is required.
type Suite struct {
	Driver transport.Driver
	// Options are the transport's own, as on the command line.
	Options map[string]string
	// MaxPayload is the largest payload in bytes that is sent, 64 or more; 0 is
	// 64 KiB. The transport's limit is kept in any case.
	MaxPayload int
	// InFlight is how many calls the connections are opened for; 0 is 16.
	InFlight int
	// Timeout limits each clause; 0 is 10 seconds.
	Timeout time.Duration
	// Kill ends a rank without any farewell to its peers, as near as one
	// process allows to the death of the rank. Afterwards only Close is
	// called on the transport. Without Kill, peers are lost by Close alone.
	Kill func(transport.Transport)
	// Skip has the clauses that are not to run, by name, each with its reason.
	// The reason is printed, and [ForbidSkips] makes it a failure.
	Skip map[string]string
}

func (s *Suite) timeout() time.Duration {
	if s.Timeout == 0 {
		return 10 * time.Second
	}
	return s.Timeout
}

// Run runs every clause as a subtest of t. A clause on something that the
// transport does not declare is not run; that is no skip.
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
		t.Fatalf("opening one rank to see what the transport declares: %v", err)
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
		t.Logf("not declared, so not run: %s", strings.Join(undeclared, ", "))
	}
}

func skip(t *testing.T, forbidden bool, reason string) {
	t.Helper()
	if forbidden {
		t.Errorf("skips are forbidden by %s, and this one was asked for: %s", ForbidSkips, reason)
		return
	}
	t.Skip(reason)
}

func checkSkip(name, reason string) error {
	var names []string
	for _, c := range clauses() {
		names = append(names, c.name)
	}
	switch {
	case !slices.Contains(names, name):
		return fmt.Errorf("Suite.Skip: no clause %q%s", name, transport.SuggestionFor(name, names))
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("Suite.Skip: clause %q needs a reason", name)
	}
	return nil
}

package transporttest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
)

// inside is the environment variable with the suite for a child process of TestRun.
const inside = "TRANSPORTTEST_INSIDE"

var unavailable = fake{open: func(*fakeDriver) error {
	return transport.Unavailable("there is no device; plug one in")
}}

// childSuites are suites whose outcome only another process can check.
var childSuites = map[string]func(*testing.T) Suite{
	"sound": func(*testing.T) Suite { return Suite{Driver: NewMemoryDriver()} },
	"skip": func(*testing.T) Suite {
		return Suite{Driver: NewMemoryDriver(),
			Skip: map[string]string{"call/once": "a test of skipping"}}
	},
	"skip without reason": func(*testing.T) Suite {
		return Suite{Driver: NewMemoryDriver(), Skip: map[string]string{"call/once": " "}}
	},
	"skip of nothing": func(*testing.T) Suite {
		return Suite{Driver: NewMemoryDriver(), Skip: map[string]string{"call/onse": "a reason"}}
	},
	"unavailable": func(t *testing.T) Suite { return *unavailable.suite(t) },
	"broken": func(t *testing.T) Suite {
		s := callFakes[0].suite(t)
		s.Timeout = 200 * time.Millisecond
		return *s
	},
	"refusing": func(t *testing.T) Suite { return *(&fake{open: failAfter(0)}).suite(t) },
}

// TestChild does nothing except in a child process of TestRun.
func TestChild(t *testing.T) {
	if suite, asked := childSuites[os.Getenv(inside)]; asked {
		Run(t, suite(t))
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		suite  string
		forbid string
		passes bool
		prints string
	}{
		{"sound", "1", true, "not run, because not declared: peers/lost-by-death (Suite.Kill)"},
		{"skip", "", true, "a test of skipping"},
		{"skip", "1", false, "TRANSPORTBENCH_FORBID_SKIPS forbids skips, and this clause was " +
			"skipped: a test of skipping"},
		{"skip without reason", "", false, `clause "call/once" needs a reason`},
		{"skip of nothing", "", false, `no clause "call/onse"; did you mean "call/once"?`},
		{"unavailable", "", true, "there is no device; plug one in"},
		{"unavailable", "1", false, "there is no device; plug one in"},
		{"broken", "", false,
			"call/once: A call is polled once as a request and completed by one response."},
		{"refusing", "", false,
			"opening one rank to read what the transport declares: transport memory: fault"},
	} {
		t.Run(strings.TrimSpace(c.suite+" "+c.forbid), func(t *testing.T) {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.v",
				"-test.run=^TestChild$")
			child.Env = append(os.Environ(), inside+"="+c.suite, ForbidSkips+"="+c.forbid)
			out, err := child.CombinedOutput()
			require.Equal(t, c.passes, err == nil, "%s", out)
			require.Contains(t, string(out), c.prints)
		})
	}
}

func TestRunClause(t *testing.T) {
	broken := callFakes[0].suite(t)
	failed, report, err := RunClause(*broken, "call/once")
	require.NoError(t, err)
	require.True(t, failed)
	require.Contains(t, report, callFakes[0].says)

	sound := Suite{Driver: NewMemoryDriver()}
	failed, report, err = RunClause(sound, "call/once")
	require.NoError(t, err)
	require.False(t, failed, report)
	_, _, err = RunClause(sound, "call/onse")
	require.ErrorContains(t, err, `no clause "call/onse"; did you mean "call/once"?`)
	_, _, err = RunClause(sound, "peers/lost-by-death")
	require.ErrorContains(t, err, "would not run: the transport lacks Suite.Kill")
}

func TestTry(t *testing.T) {
	s := &Suite{Timeout: 50 * time.Millisecond}
	forever := make(chan struct{})
	defer close(forever)
	for _, c := range []struct {
		name   string
		run    func(*trial)
		failed bool
		says   string
	}{
		{"passes", func(t *trial) {}, false, ""},
		{"fails", func(t *trial) { t.fatalf("wrong by %d", 7) }, true, "wrong by 7"},
		{"fails and goes on", func(t *trial) { t.Errorf("first"); t.Errorf("second") }, true,
			"first\nsecond"},
		{"panics", func(t *trial) { panic("so be it") }, true, "panicked: so be it"},
		{"hangs", func(t *trial) { <-forever }, true, "did not return within its limit of 50ms"},
		{"waits too long", func(t *trial) {
			for spins := 0; ; spins++ {
				t.pause(spins, "number %d", 3)
			}
		}, true, "timed out waiting for number 3"},
		{"fails in a thread", func(t *trial) {
			t.parallel(func() { t.fatalf("there") },
				func() {})
		}, true, "there"},
		{"panics in a thread", func(t *trial) { t.parallel(func() { panic("there") }) }, true,
			"panicked: there"},
		{"fails in a cleanup", func(t *trial) { t.Cleanup(func() { t.Errorf("late") }) },
			true, "late"},
		{"cleans up after a failure, last first", func(t *trial) {
			t.Cleanup(func() { t.Errorf("third") })
			t.Cleanup(func() { t.Errorf("second") })
			t.fatalf("first")
		}, true, "first\nsecond\nthird"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed, lines := try(s, traits{}, clause{run: c.run})
			require.Equal(t, c.failed, failed)
			require.Contains(t, strings.Join(lines, "\n"), c.says)
		})
	}
}

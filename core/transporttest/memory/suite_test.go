package memory

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

// inside is the environment variable with the suite for a child process of TestRun.
const inside = "TRANSPORTTEST_INSIDE"

var unavailable = fake{open: func(*fakeDriver) error {
	return transport.Unavailable("there is no device; plug one in")
}}

// childSuites are suites whose outcome only another process can check.
var childSuites = map[string]func(*testing.T) transporttest.Suite{
	"sound": func(*testing.T) transporttest.Suite {
		return transporttest.Suite{Driver: NewDriver()}
	},
	"skip": func(*testing.T) transporttest.Suite {
		return transporttest.Suite{Driver: NewDriver(),
			Skip: map[string]string{"call/once": "a test of skipping"}}
	},
	"skip without reason": func(*testing.T) transporttest.Suite {
		return transporttest.Suite{Driver: NewDriver(), Skip: map[string]string{"call/once": " "}}
	},
	"skip of nothing": func(*testing.T) transporttest.Suite {
		return transporttest.Suite{Driver: NewDriver(),
			Skip: map[string]string{"call/onse": "a reason"}}
	},
	"unavailable": func(t *testing.T) transporttest.Suite { return *unavailable.suite(t) },
	"broken": func(t *testing.T) transporttest.Suite {
		s := callFakes[0].suite(t)
		s.Timeout = 200 * time.Millisecond
		return *s
	},
	"refusing": func(t *testing.T) transporttest.Suite {
		return *(&fake{open: failAfter(0)}).suite(t)
	},
}

// TestChild does nothing except in a child process of TestRun.
func TestChild(t *testing.T) {
	if suite, asked := childSuites[os.Getenv(inside)]; asked {
		transporttest.Run(t, suite(t))
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
			child.Env = append(os.Environ(), inside+"="+c.suite,
				transporttest.ForbidSkips+"="+c.forbid)
			out, err := child.CombinedOutput()
			require.Equal(t, c.passes, err == nil, "%s", out)
			require.Contains(t, string(out), c.prints)
		})
	}
}

func TestRunClause(t *testing.T) {
	broken := callFakes[0].suite(t)
	failed, report, err := transporttest.RunClause(*broken, "call/once")
	require.NoError(t, err)
	require.True(t, failed)
	require.Contains(t, report, callFakes[0].says)

	sound := transporttest.Suite{Driver: NewDriver()}
	failed, report, err = transporttest.RunClause(sound, "call/once")
	require.NoError(t, err)
	require.False(t, failed, report)
	_, _, err = transporttest.RunClause(sound, "call/onse")
	require.ErrorContains(t, err, `no clause "call/onse"; did you mean "call/once"?`)
	_, _, err = transporttest.RunClause(sound, "peers/lost-by-death")
	require.ErrorContains(t, err, "would not run: the transport lacks Suite.Kill")
}

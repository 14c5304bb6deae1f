package engine

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// record returns a log, and what was logged once the engine has stopped.
func record() (log func(label, line string), lines func() []string) {
	var mu sync.Mutex
	var all []string
	return func(label, line string) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, label+": "+line)
		}, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return all
		}
}

// script writes a program.
func script(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

func TestLaunch(t *testing.T) {
	t.Setenv("OMPI_MCA_mca_base_env_list", "HOME")
	agent := script(t, "agent",
		`echo "$@" and $TRANSPORTBENCH_TICKET; echo $OMPI_MCA_mca_base_env_list >&2; tr '\0' ' ' </proc/$PPID/cmdline`)
	log, lines := record()
	e, err := Start(Launch(`sh -c '"$@"; exit 0' "an engine"`, Quote(agent), "agent", "two words"),
		"ticket-1", log)
	require.NoError(t, err)
	<-e.Failed()
	failure := e.Err()
	e.Stop("")
	require.Len(t, lines(), 3)
	require.Equal(t, "sh: agent two words and ticket-1", lines()[0])
	require.Equal(t, "sh: HOME;TRANSPORTBENCH_TICKET", lines()[1])
	require.NotContains(t, lines()[2], "ticket-1", "arguments")
	require.ErrorContains(t, failure, "sh ended before the run did: agent two words")
}

func TestLaunchFails(t *testing.T) {
	log, _ := record()
	e, err := Start(
		Launch(
			`CODE=7 sh -c 'for i in 1 2 3 4 5 6; do echo line $i; done; echo ------; exit $CODE'`,
			""), "ticket", log)
	require.NoError(t, err)
	<-e.Failed()
	failure := e.Err()
	e.Stop("")
	require.EqualError(t, failure,
		"sh failed: exit status 7: line 2; line 3; line 4; line 5; line 6")
	var exit *ExitError
	require.True(t, errors.As(failure, &exit))
}

// TestEnvironment: srun ends a step with a task that failed, unless the user wants it to go on.
func TestEnvironment(t *testing.T) {
	require.Equal(t, []string{"A=b", "SLURM_KILL_BAD_EXIT=1", "TRANSPORTBENCH_TICKET=x",
		"OMPI_MCA_mca_base_env_list=TRANSPORTBENCH_TICKET"},
		environment([]string{"A=b"}, "x"))
	require.Contains(t, environment([]string{"SLURM_KILL_BAD_EXIT=0"}, "x"),
		"SLURM_KILL_BAD_EXIT=0")
	require.NotContains(t, environment([]string{"SLURM_KILL_BAD_EXIT=0"}, "x"),
		"SLURM_KILL_BAD_EXIT=1")
}

func TestSSH(t *testing.T) {
	ssh := script(t, "ssh",
		`for last; do :; done; read ticket; echo "$@" TICKET $ticket ENV $TRANSPORTBENCH_TICKET; eval "$last"`)
	t.Setenv("PATH", filepath.Dir(ssh)+":"+os.Getenv("PATH"))
	log, lines := record()
	e, err := Start(SSH([]string{"a", "root@b"}, "echo plain", "it's"), "ticket-2", log)
	require.NoError(t, err)
	e.Stop("")
	require.ElementsMatch(t, []string{
		`a: -T -o BatchMode=yes -o ConnectTimeout=10 -- a echo plain 'it'\''s' '--join' '-' '--index' '0' TICKET ticket-2 ENV`,
		"a: plain it's --join - --index 0",
		`root@b: -T -o BatchMode=yes -o ConnectTimeout=10 -- root@b echo plain 'it'\''s' '--join' '-' '--index' '1' TICKET ticket-2 ENV`,
		"root@b: plain it's --join - --index 1",
	}, lines())
}

// TestStop ends a process that ignores SIGTERM, and its child.
func TestStop(t *testing.T) {
	log, lines := record()
	e, err := Start(Launch(`sh -c 'trap "" TERM; echo sh: begun; sleep 1000; :'`, ""),
		"ticket", log)
	require.NoError(t, err)
	require.NoError(t, e.Err())
	e.patience, e.killDelay = 50*time.Millisecond, 50*time.Millisecond
	require.Eventually(t, func() bool { return len(lines()) > 0 }, time.Minute, time.Millisecond)
	e.Stop("")
	require.EqualError(t, e.Err(), "sh failed: signal: killed: begun")
	require.Equal(t, []string{"sh: begun"}, lines(), "labelled once")
}

// TestStopCancelsTheJob: srun that must be killed leaves its allocation behind, so the job goes
// first, after the time that srun says it needs.
func TestStopCancelsTheJob(t *testing.T) {
	scancel := script(t, "scancel", `echo "$@" >"$(dirname "$0")/cancelled"`)
	t.Setenv("PATH", filepath.Dir(scancel)+":"+os.Getenv("PATH"))
	t.Setenv("SLURM_JOB_ID", "")
	log, lines := record()
	e, err := Start(Launch(`sh -c 'trap "echo Waiting up to 1 seconds for job step to finish." TERM
		echo begun; while :; do sleep 0.01; done'`, ""), "ticket", log)
	require.NoError(t, err)
	e.patience, e.killDelay = 50*time.Millisecond, 50*time.Millisecond
	require.Eventually(t, func() bool { return len(lines()) > 0 }, time.Minute, time.Millisecond)
	began := time.Now()
	e.Stop("12.3")
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	cancelled, err := os.ReadFile(filepath.Join(filepath.Dir(scancel), "cancelled"))
	require.NoError(t, err)
	require.Equal(t, "-- 12\n", string(cancelled))
}

func TestStartFails(t *testing.T) {
	log, _ := record()
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Start(append(Launch("sleep 1000", ""), Process{Label: "x", Argv: []string{missing}}),
		"ticket", log)
	require.ErrorContains(t, err, "start x: ")
	require.True(t, strings.HasSuffix(err.Error(), "no such file or directory"), err)
}

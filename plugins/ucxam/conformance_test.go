package ucxam

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"transportbench/core/fabric/fabrictest"
	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) {
	if err := PrepareProcess(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if fabrictest.RunChild(map[string]fabrictest.Role{
		fabrictest.EchoRole: fabrictest.Echo(Driver{}), growRole: grow}) {
		return
	}
	goleak.VerifyTestMain(m)
}

// patience is the time limit of a clause. UCX writes all of a worker's shared memory when it
// makes the worker, and some clauses make a hundred workers.
const patience = time.Minute

// releaseWorkers ends an endpoint without telling its peers. That breaks UCX's connections.
func releaseWorkers(t transport.Transport) {
	e := t.(*endpoint)
	_ = e.workers.Close(e.release)
}

func TestConformance(t *testing.T) {
	for _, lane := range []string{"posix", "sysv"} {
		t.Run(lane, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience,
				Options: map[string]string{optionTLS: lane}})
		})
	}
	t.Run("tcp", func(t *testing.T) {
		transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience,
			Options: map[string]string{optionTLS: "tcp"}, Kill: releaseWorkers})
	})
}

func TestConformanceWakeUp(t *testing.T) {
	t.Run("posix", func(t *testing.T) {
		transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience,
			Options: map[string]string{optionTLS: "posix", optionWakeUp: "true"}})
	})
	t.Run("tcp", func(t *testing.T) {
		transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience,
			Options: map[string]string{optionTLS: "tcp", optionWakeUp: "true"},
			Skip: map[string]string{
				"wait/arrival-before": "UCX sets up a TCP connection with several messages, for " +
					"which both sides must progress; " +
					"in this clause the caller posts its first call and does not poll until it " +
					"has arrived",
				"wait/blocks": "UCX's descriptor may stay readable during the set-up of a TCP " +
					"connection, " +
					"and in this clause the other side never progresses",
			}})
	})
}

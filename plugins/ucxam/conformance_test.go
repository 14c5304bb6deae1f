package ucxam

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"transportbench/core/transport"
	"transportbench/core/transporttest"
)

func TestMain(m *testing.M) {
	if err := PrepareProcess(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if runChild() {
		return
	}
	goleak.VerifyTestMain(m)
}

// patience is the limit of a clause. UCX writes all of a worker's shared memory
// when it makes it, and some clauses make a hundred workers.
const patience = time.Minute

// kill ends a rank without a farewell. Where UCX has connections of its own,
// that breaks them.
func kill(t transport.Transport) {
	for _, w := range t.(*rank).workers {
		w.closed = true
		_ = w.destroy()
	}
}

func TestConformance(t *testing.T) {
	for _, lane := range []string{"posix", "sysv"} {
		t.Run(lane, func(t *testing.T) {
			transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience, Options: map[string]string{optionTLS: lane}})
		})
	}
	t.Run("tcp", func(t *testing.T) {
		transporttest.Run(t, transporttest.Suite{Driver: Driver{}, Timeout: patience, Options: map[string]string{optionTLS: "tcp"}, Kill: kill})
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
				"wait/arrival-before": "UCX makes a TCP connection in several messages, for which both sides must progress; " +
					"in this clause the caller posts its first call and polls no more until it has arrived",
				"wait/blocks": "UCX's descriptor stays readable at times while a TCP connection is half made, " +
					"and in this clause the other side never progresses",
			}})
	})
}

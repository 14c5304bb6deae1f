package rank

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"transportbench/core/base/config"
	"transportbench/core/base/machine"
	"transportbench/core/base/record"
	"transportbench/core/transport"
	"transportbench/core/transporttest/memory"
)

// TestGroup: clients that yield one processor to each other have one OS thread, which serves all of
// them, and each reports its own calls.
func TestGroup(t *testing.T) {
	allowed, err := machine.AllowedCPUs()
	require.NoError(t, err)
	for name, set := range map[string]func(*config.Config){
		"closed loop": func(c *config.Config) { c.InFlight = 1 },
		"several":     func(c *config.Config) { c.Ranks, c.Daemons = 3, 2 },
		"open loop":   func(c *config.Config) { c.Rate = 2000 },
		"mesh-direct": func(c *config.Config) { c.Topology = config.TopologyMeshDirect },
		"mesh-proxied": func(c *config.Config) {
			c.Topology, c.InFlight = config.TopologyMeshProxied, 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Clients = 4
			set(&cfg)
			ranks := clusterOn(t, memory.NewDriver(), cfg, config.IdleYield,
				allowed[0])
			for range 2 {
				first, others := runUntil(t, ranks, 1, 50)
				for _, report := range append(others, first) {
					for _, c := range report.Clients {
						require.Positive(t, c.Ops())
						require.Equal(t, c.Ops(), c.VerifiedKeys)
						require.Zero(t, c.Lost)
						require.Equal(t, cfg.Clients, c.Thread.Sharing)
					}
				}
			}
			for _, r := range ranks {
				ids := map[int][]*thread{}
				for _, thread := range r.threads {
					id, err := get(context.Background(), thread,
						func() (int, error) { return unix.Gettid(), nil })
					require.NoError(t, err)
					ids[id] = append(ids[id], thread)
				}
				daemons, clients := cfg.Threads(r.plan.Rank)
				require.Len(t, ids, daemons+min(clients, 1), "OS threads of rank %d", r.plan.Rank)
			}
		})
	}
}

// TestNoGroup: clients on processors of their own, or that do not yield, have threads of their own.
func TestNoGroup(t *testing.T) {
	for _, idle := range []string{config.IdleSpin, config.IdlePark, config.IdleYield} {
		cfg := testConfig()
		cfg.Clients = 3
		ranks := cluster(t, memory.NewDriver(), cfg, idle)
		for _, thread := range ranks[1].threads {
			require.Nil(t, thread.group)
		}
	}
}

// TestGroupFails: the failure of one client ends the window of all, and is the rank's.
func TestGroupFails(t *testing.T) {
	allowed, err := machine.AllowedCPUs()
	require.NoError(t, err)
	cfg := testConfig()
	cfg.Clients = 4
	ranks := clusterOn(t, memory.NewDriver(), cfg, config.IdleYield, allowed[0])
	require.NoError(t, ranks[1].threads[2].worker.Close())
	_, others, err := runAll(t, ranks, record.Window{Duration: time.Hour, SampleEvery: 1})
	require.ErrorIs(t, err, transport.ErrClosed)
	require.ErrorContains(t, err, "rank 1")
	require.Len(t, others[0].Clients, 4, "the others report, too")
}

// Profilers show threads by these names.
func TestPollingThreadsAreNamed(t *testing.T) {
	cfg := testConfig()
	cfg.Clients = 2
	var names []string
	for _, r := range cluster(t, memory.NewDriver(), cfg, config.IdleSpin) {
		for _, polling := range r.threads {
			name, err := get(t.Context(), polling, func() (string, error) {
				text, err := os.ReadFile("/proc/thread-self/comm")
				return strings.TrimSpace(string(text)), err
			})
			require.NoError(t, err)
			require.Equal(t, polling.id.Name(), name)
			names = append(names, name)
		}
	}
	require.Subset(t, names, []string{"r0 daemon 0", "r1 client 0", "r1 client 1"})
}

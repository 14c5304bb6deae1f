package launch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"transportbench/core/base/config"
	"transportbench/core/lab/experiment/hosts"
	"transportbench/core/lab/experiment/runner"
	"transportbench/core/plugin/agent"
	"transportbench/core/plugin/internal/wire"
)

// machines are agents that take a minute to describe a plugin.
type machines struct {
	wire.Agent
	now, peak atomic.Int64 // plugins that are described
}

func (m *machines) Describe(context.Context, wire.PluginRequest) ([]byte, error) {
	defer m.now.Add(-1)
	if n := m.now.Add(1); n > m.peak.Load() {
		m.peak.Store(n)
	}
	time.Sleep(time.Minute)
	return nil, errors.New("described")
}

func (m *machines) End(context.Context) error { return nil }

func (m *machines) Logs(ctx context.Context, _ func(string) error) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestTurns: at most eight agents of a machine with few processors describe a plugin at once.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener, server, m := bufconn.Listen(1<<20), grpc.NewServer(), new(machines)
		wire.RegisterAgent(server, m)
		served := make(chan error)
		go func() { served <- server.Serve(listener) }()
		var c Cluster
		for range 20 {
			conn, err := listener.DialContext(t.Context())
			require.NoError(t, err)
			c.agents = append(c.agents, &hosts.Agent{Hello: hosts.Hello{BootID: "m1"}, Conn: conn})
		}
		require.NoError(t, c.connect(&Join{HostTimeout: time.Hour}))
		_, errs := c.Descriptions(t.Context(), "fake", "")
		for _, err := range errs {
			require.ErrorContains(t, err, "described")
		}
		require.EqualValues(t, 8, m.peak.Load())
		for _, r := range c.remotes {
			r.Close()
		}
		server.Stop()
		require.NoError(t, <-served)
	})
}

// Of the options of a host, a transport gets those that it has.
func TestPlaceOptionsOfHosts(t *testing.T) {
	layout, err := hosts.NewLayout([]string{"h0"}, 0, "h0 device=mlx5_0 domain=mlx5_0")
	require.NoError(t, err)
	c := Cluster{layout: layout, agents: []*hosts.Agent{{Hello: hosts.Hello{Name: "h0"}}},
		remotes: make([]*agent.Remote, 1)}
	for option, want := range map[string]map[string]string{
		"device": {"device": "mlx5_0"}, "domain": {"domain": "mlx5_0"}, "tls": nil,
	} {
		req := runner.Request{Config: config.Config{Ranks: 1,
			Options: map[string]string{option: ""}}}
		require.NoError(t, c.Place(&req))
		require.Equal(t, want, req.Hosts[0].Options)
	}
}

// An agent that shares its machine may wait long for a processor.
func TestSilence(t *testing.T) {
	require.Equal(t, 10*time.Second, (&Join{}).silence())
	require.Equal(t, time.Minute, (&Join{ShareMachine: true}).silence())
	require.Equal(t, time.Hour, (&Join{ShareMachine: true, HostTimeout: time.Hour}).silence())
}

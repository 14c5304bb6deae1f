package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCPUs(t *testing.T) {
	for text, want := range map[string]CPUs{
		"":                                  "",
		"auto":                              "",
		"daemons=2,clients=3-18":            "daemons=2,clients=3-18",
		"daemon=2,client=3":                 "daemons=2,clients=3",
		"clients=4,6,8-9,daemons=0,2":       "daemons=0,2,clients=4,6,8-9",
		"daemons=0,1,2,clients=3,4,5,16383": "daemons=0-2,clients=3-5,16383",
	} {
		var c CPUs
		require.NoError(t, c.Set(text), text)
		require.Equal(t, want, c, text)
		var again CPUs
		require.NoError(t, again.Set(c.String()))
		require.Equal(t, want, again)
	}
	daemons, clients := CPUs("daemons=0,2,clients=4,8-9").Lists()
	require.Equal(t, []int{0, 2}, daemons)
	require.Equal(t, []int{4, 8, 9}, clients)

	for text, problem := range map[string]string{
		"2,3":                          `"2,3" has no role; use daemons=0,clients=1-3`,
		"1,daemons=0,clients=2":        "has no role",
		"daemons=2":                    "clients have no processors; use daemons=0,clients=1-3",
		"daemons=,clients=1":           "daemons have no processors",
		"demons=2,clients=3":           `"demons" is not one of daemons, clients; did you mean "daemons"?`,
		"daemons=1,clients=2,daemon=3": "daemons are given twice",
		"daemons=1,clients=9-3":        `clients: "9-3" is not a list of processors`,
		"daemons=1,clients=x":          `clients: "x" is not a list of processors`,
		"daemons=1,clients=3,3":        "is not a list of processors",
		"daemons=-1,clients=3":         "is not a list of processors",
		"daemons=16384,clients=3":      "is not a list of processors",
	} {
		require.ErrorContains(t, new(CPUs).Set(text), problem, text)
	}
}

func TestPlacementOptions(t *testing.T) {
	var n NUMANode
	require.NoError(t, n.Set("07"))
	node, ok := n.Node()
	require.Equal(t, 7, node)
	require.True(t, ok)
	require.Equal(t, NUMANode("7"), n)
	require.NoError(t, n.Set("any"))
	_, ok = n.Node()
	require.False(t, ok)
	for _, text := range []string{"-1", "1024", "0,1", "node0"} {
		require.ErrorContains(t, n.Set(text), "is not a node from 0 to 1023, or any", text)
	}

	var s Count
	for text, want := range map[string]Count{"1": 0, "2": 2, "1023": 1023} {
		require.NoError(t, s.Set(text))
		require.Equal(t, want, s)
		require.Equal(t, text, s.String())
	}
	for _, text := range []string{"0", "-1", "1024", "two"} {
		require.ErrorContains(t, s.Set(text), "is not a number from 1 to 1023", text)
	}

	for text, want := range map[string]Interleave{"none": "", "send-poll": InterleaveSendPoll} {
		c, _, err := Resolve(Layer{Values: map[string]string{"interleave": text,
			"topology": TopologyMeshProxied}})
		require.NoError(t, err)
		require.Equal(t, want, c.Interleave)
	}
	_, _, err := Resolve(Layer{Values: map[string]string{"interleave": "send-pol"}})
	require.ErrorContains(t, err,
		`"send-pol" is not one of none, send-poll; did you mean "send-poll"?`)
}

func TestPlacementOptionsThatExcludeOthers(t *testing.T) {
	for problem, spoil := range map[string]func(*Config){
		"--cpus: clients have no processors": func(c *Config) {
			c.CPUs = "daemons=1"
		},
		"--numa: \"x\" is not a node": func(c *Config) {
			c.NUMA = "x"
		},
		"--interleave: \"poll\" is not one of": func(c *Config) {
			c.Interleave = "poll"
		},
		"--cpus: cannot be combined with --pin=false": func(c *Config) {
			c.CPUs, c.Pin = "daemons=0,clients=1", false
		},
		"--numa: cannot be combined with --pin=false": func(c *Config) {
			c.NUMA, c.Pin = "0", false
		},
		"--numa: cannot be combined with --cpus": func(c *Config) {
			c.CPUs, c.NUMA = "daemons=0,clients=1", "0"
		},
		"--servers: 1024 is out of range": func(c *Config) {
			c.Servers = 1024
		},
		"--servers: cannot be combined with --topology=mesh-direct, where every rank serves; use " +
			"--topology client-server, or leave it out": func(c *Config) {
			c.Servers, c.Topology = 2, TopologyMeshDirect
		},
		"--servers: cannot be combined with --traffic=incast:2": func(c *Config) {
			c.Servers, c.Ranks, c.Traffic = 2, 3, "incast:2"
		},
		"--servers: 2 serving ranks leave none of 2 ranks to call;": func(c *Config) {
			c.Servers = 2
		},
		"--delegate: has no effect with one daemon": func(c *Config) {
			c.Delegate = true
		},
		"--delegate: cannot be combined with --service=echo": func(c *Config) {
			c.Delegate, c.Daemons, c.Service, c.ReadRatio = true, 2, ServiceEcho, 1
		},
		"--idle: park cannot be combined with --delegate=true": func(c *Config) {
			c.Delegate, c.Daemons, c.Idle = true, 2, IdlePark
		},
		"--interleave: cannot be combined with --topology=mesh-direct": func(c *Config) {
			c.Topology, c.Interleave = TopologyMeshDirect, InterleaveSendPoll
		},
		"--interleave: cannot be combined with --flush=immediate": func(c *Config) {
			c.Topology, c.Interleave, c.Flush = TopologyMeshProxied, InterleaveSendPoll,
				FlushImmediate
		},
	} {
		c := Default()
		spoil(&c)
		err := c.Validate()
		require.ErrorContains(t, err, problem)
		require.NotContains(t, err.Error(), "\n")
	}
	c := Default()
	c.Ranks, c.Servers = 5, 3
	require.NoError(t, c.Validate())
	require.Equal(t, 3, c.ServingRanks())
	require.Equal(t, 2, c.CallingRanks())
	require.True(t, c.Serves(2) && !c.Calls(2) && c.Calls(3) && !c.Serves(3))
}

// Conflicts name options and values that there are, and why.
func TestConflicts(t *testing.T) {
	conflicts := 0
	for _, f := range Fields() {
		for _, c := range f.Conflicts {
			conflicts++
			require.NotEmpty(t, c.Why, f.Name)
			require.Subset(t, f.Allowed, c.Own, f.Name)
			other := FieldByName(c.With)
			require.NotNil(t, other, c.With)
			if len(other.Allowed) > 0 {
				require.Subset(t, other.Allowed, c.Values, f.Name)
			}
			require.Contains(t, f.Beside(), "not with "+c.With)
		}
		for _, name := range append(f.Sets, f.Replaces...) {
			require.True(t, IsOption(name), name)
			require.True(t, f.Overrules(name), name)
		}
	}
	require.Greater(t, conflicts, 10)
}

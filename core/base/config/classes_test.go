package config

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClasses(t *testing.T) {
	var l Classes
	require.NoError(t, l.Set("bulk:1MiB,rate=2k,clients=2; rpc:64B,slo=50us"))
	require.Equal(t, Classes{
		{Name: "bulk", Size: 1 << 20, Rate: 2000, InFlight: 16, Clients: 2},
		{Name: "rpc", Size: 64, InFlight: 1, Clients: 1,
			Objective: Duration(50 * time.Microsecond)},
	}, l)
	text, err := json.Marshal(l)
	require.NoError(t, err)
	var again Classes
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, l, again)
	for text, want := range map[string]string{
		"bulk":                 `"bulk" is not a class such as`,
		"bulk:1XB":             "class bulk: ",
		"bulk:1,rat=5":         `"rat" is not one of rate, in-flight, clients, slo; did you mean "rate"?`,
		"bulk:1,in-flight=0":   `in-flight: "0" is not a whole number from 1`,
		"bulk:1,slo=fast":      `slo: "fast" is not a duration`,
		"bulk:1,slo=0s":        `slo: "0s" is no time`,
		"bulk:1,rate=quick":    `rate: "quick" is neither a rate`,
		"bulk:1;rpc:64B,slo=1": `class rpc: slo: "1" is not a duration`,
	} {
		require.ErrorContains(t, l.Set(text), want, text)
	}
}

// classConfig has classes as the command line settles them.
func classConfig(t *testing.T, text string) Config {
	c := Default()
	require.NoError(t, c.Classes.Set(text))
	clients, inFlight, size := c.Classes.Totals()
	c.Clients, c.InFlight, c.ValueSize, c.Service, c.ReadRatio = clients, inFlight, FixedSize(size),
		ServiceEcho, 1
	return c
}

func TestLoadOfAClient(t *testing.T) {
	c := classConfig(t, "bulk:4096,rate=900,in-flight=3,clients=2;rpc:64B")
	require.NoError(t, c.Validate())
	require.Equal(t, []int{-1, 0, 0, 1, -1}, []int{c.ClassOf(-1), c.ClassOf(0), c.ClassOf(1),
		c.ClassOf(2), c.ClassOf(3)})
	require.Equal(t, 7, c.CallsInFlight())
	bulk, rpc := c.OfClient(1), c.OfClient(2)
	require.Equal(t, []any{4096, 3, Rate(900), 2}, []any{bulk.ValueSize.Max(), bulk.InFlight,
		bulk.Rate, bulk.TotalClients()})
	require.Equal(t, []any{64, 1, Rate(0), 1}, []any{rpc.ValueSize.Max(), rpc.InFlight, rpc.Rate,
		rpc.Clients})
	require.Equal(t, 4096, c.ValueSize.Max(), "OfClient changes nothing")

	for text, option := range map[string]string{
		"a:1;a:2": "class", "A:1": "class", "a:1,rate=max": "class", "a:1,slo=2m": "class",
		"a:1,in-flight=100000": "class",
	} {
		wrong := classConfig(t, text)
		require.ErrorContains(t, wrong.Validate(), "--"+option+": ", text)
	}
	for option, spoil := range map[string]func(*Config){
		"clients":    func(c *Config) { c.Clients = 5 },
		"in-flight":  func(c *Config) { c.InFlight = 5 },
		"value-size": func(c *Config) { c.ValueSize = FixedSize(5) },
		"rate":       func(c *Config) { c.Rate = 5 },
		"service":    func(c *Config) { c.Service = ServiceStore },
	} {
		wrong := c
		spoil(&wrong)
		require.ErrorContains(t, wrong.Validate(), "--"+option+": ")
	}
}

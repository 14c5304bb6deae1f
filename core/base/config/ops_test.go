package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMixAndPatternAreReadAsWritten(t *testing.T) {
	for text, want := range map[string]Mix{
		"none": nil, "read:1": {{OpRead, 1}},
		"read:0.5,rmw:0.25,lookup:0.25": {{OpRead, 0.5}, {OpRMW, 0.25}, {OpLookup, 0.25}},
	} {
		var m Mix
		require.NoError(t, m.Set(text))
		require.Equal(t, want, m)
		require.Equal(t, text, m.String())
		require.NoError(t, m.validate())
	}
	var m Mix
	require.NoError(t, m.Set(" read : 0.5 , write:0.5"))
	require.Equal(t, Mix{{OpRead, 0.5}, {OpWrite, 0.5}}, m)
	require.NoError(t, m.Set(""))
	require.Empty(t, m)

	var p Pattern
	require.NoError(t, p.Set("lookup:7,read:6,write:3"))
	require.Equal(t, Pattern{{OpLookup, 7}, {OpRead, 6}, {OpWrite, 3}}, p)
	require.Equal(t, "lookup:7,read:6,write:3", p.String())
	require.Equal(t, 16, p.Len())
	require.NoError(t, p.validate())
	require.NoError(t, Pattern{{OpRead, 1}, {OpWrite, 1}, {OpRead, 1}}.validate(),
		"an operation may come again")
	require.NoError(t, p.Set("none"))
	require.Empty(t, p)
}

func TestMixAndPatternRefuse(t *testing.T) {
	for text, problem := range map[string]string{
		"read": "not operation:number", "read:": "not a share", "read:half": "not a share",
		",": "not operation:number", "read:1,": "not operation:number",
	} {
		var m Mix
		require.ErrorContains(t, m.Set(text), problem, text)
	}
	var p Pattern
	require.ErrorContains(t, p.Set("read:0.5"), "not a number of read")
}

func TestReadsValues(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		reads  bool
	}{
		"reads and writes": {func(c *Config) {}, true},
		"writes":           {func(c *Config) { c.ReadRatio = 0 }, false},
		"mix": {func(c *Config) {
			c.ReadRatio, c.Mix = 1,
				Mix{{OpWrite, 0.5}, {OpLookup, 0.5}, {OpRead, 0}}
		}, false},
		"rmw": {func(c *Config) {
			c.ReadRatio, c.Mix = 0,
				Mix{{OpWrite, 0.5}, {OpRMW, 0.5}}
		}, true},
		"pattern": {func(c *Config) { c.Pattern = Pattern{{OpWrite, 128}} }, false},
		"reading pattern": {func(c *Config) {
			c.ReadRatio, c.Pattern = 0,
				Pattern{{OpWrite, 1}, {OpRead, 1}}
		}, true},
	} {
		cfg := Default()
		c.change(&cfg)
		require.Equal(t, c.reads, cfg.ReadsValues(), name)
	}
}

func TestPayloads(t *testing.T) {
	for text, c := range map[string]struct {
		set         func(*Config)
		forth, back float64
	}{
		"reads":        {func(c *Config) { c.ReadRatio = 1 }, 16, 116},
		"half writes":  {func(c *Config) { c.ReadRatio = 0.5 }, 66, 66},
		"echo":         {func(c *Config) { c.Service = ServiceEcho }, 116, 116},
		"sink":         {func(c *Config) { c.Service = ServiceSink }, 116, 16},
		"mix":          {func(c *Config) { c.Mix = Mix{{OpRead, 0.75}, {OpInsert, 0.25}} }, 41, 91},
		"two requests": {func(c *Config) { c.Mix = Mix{{OpRMW, 1}} }, 66, 66},
		"pattern": {func(c *Config) {
			c.Pattern = Pattern{{OpLookup, 2}, {OpRead, 1},
				{OpWrite, 1}}
		}, 41, 41},
	} {
		cfg := Default()
		cfg.ValueSize = FixedSize(100)
		c.set(&cfg)
		forth, back := cfg.Payloads()
		require.Equal(t, []float64{c.forth, c.back}, []float64{forth, back}, text)
	}
}

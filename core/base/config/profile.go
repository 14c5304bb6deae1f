package config

import (
	"fmt"
	"maps"
	"strings"

	"transportbench/core/fabric/suggest"
)

// Profile is a named set of option values. It overrides the defaults; files, environment variables
// and flags override it.
type Profile struct {
	Name    string
	Summary string            // one line
	Set     map[string]string // values as text, by the flag's name without dashes
	Path    string            // of its file; empty for a built-in profile
}

// Source names the origin of a value of the profile in the user's words.
func (p Profile) Source(option string) string {
	if p.Path == "" {
		return "--" + option
	}
	return option + " in " + p.Path
}

func profileNames() []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.Name)
	}
	return names
}

// ProfileReference is the profile of the reference. Its settings never change, so sets of all
// versions can be compared by it.
const ProfileReference = "reference"

// profiles are in display order.
var profiles = []Profile{
	{
		Name:    "pingpong",
		Summary: "one client, one read of 32 bytes in flight: measures the round trip alone",
		Set: map[string]string{
			"clients":      "1",
			"in-flight":    "1",
			"value-size":   "32",
			"read-ratio":   "1",
			"keys":         "1024",
			"distribution": DistributionUniform,
		},
	},
	{
		Name: "echo",
		Summary: "messages of 48 bytes that the daemon returns: measures the transport alone, " +
			"without a store",
		Set: map[string]string{
			"service":      string(ServiceEcho),
			"in-flight":    "1",
			"value-size":   "32",
			"read-ratio":   "1",
			"verify-every": "16",
		},
	},
	{
		Name: ProfileReference,
		Summary: "the load of the reference that a sweep measures beside its cells, with the " +
			"transport calibration",
		Set: map[string]string{
			"service":      string(ServiceEcho),
			"in-flight":    "1",
			"value-size":   "32",
			"read-ratio":   "1",
			"verify-every": "16",
			"duration":     "100ms",
			"warmup":       "60ms",
		},
	},
	{
		Name: "kv",
		Summary: "benchkv's load: half reads, half writes of 32 bytes over 1024 keys a rank, " +
			"drawn uniformly, one in flight",
		Set: map[string]string{
			"in-flight":    "1",
			"value-size":   "32",
			"read-ratio":   "0.5",
			"keys":         "1024",
			"distribution": DistributionUniform,
		},
	},
	ycsb("ycsb-a", "YCSB's workload A, a session store: half reads, half updates, zipfian",
		map[string]string{"read-ratio": "0.5"}),
	ycsb("ycsb-b", "YCSB's workload B, tags of photos: 95% reads, 5% updates, zipfian",
		map[string]string{"read-ratio": "0.95"}),
	ycsb("ycsb-c", "YCSB's workload C, a cache of profiles: reads only, zipfian",
		map[string]string{"read-ratio": "1"}),
	ycsb("ycsb-d", "YCSB's workload D, status updates: 95% reads of the latest, 5% insertions",
		map[string]string{"mix": "read:0.95,insert:0.05", "distribution": DistributionLatest}),
	ycsb("ycsb-f",
		"YCSB's workload F, records of users: half reads, half read-modify-writes, zipfian",
		map[string]string{"mix": "read:0.5,rmw:0.5"}),
	{
		Name: "kvcache",
		Summary: "a cache of attention keys and values: iterations of 7 lookups, 6 reads and 3 " +
			"writes of blocks of 128 tokens",
		Set: map[string]string{
			"in-flight":        "1",
			"tokens-per-block": "128",
			"bytes-per-token":  "4",
			"pattern":          "lookup:7,read:6,write:3",
			"keys":             "1024",
			"distribution":     DistributionUniform,
		},
	},
	{
		Name: "kvhandoff",
		Summary: "hand-offs of the cache of 512 tokens of llama-3.1-70b on one of 8 " +
			"accelerators: 80 layers of pages of 16 tokens, scattered at random",
		Set: map[string]string{
			"handoff":          "push:512",
			"model":            "llama-3.1-70b",
			"tensor-parallel":  "8",
			"tokens-per-block": "16",
			"verify-every":     "64",
		},
	},
	{
		Name: "bulk",
		Summary: "transfers of 64 MiB, each written in 128 chunks of 512 KiB, 12 of them in " +
			"flight, to a daemon that reads and drops them",
		Set: map[string]string{
			"service":      string(ServiceSink),
			"in-flight":    "12",
			"value-size":   "512KiB",
			"pattern":      "write:128",
			"keys":         "128",
			"distribution": DistributionSequential,
			"verify-every": "64",
		},
	},
}

// ycsb returns a profile with the settings that YCSB's core workloads share: records of 10 fields
// of 100 bytes, and clients that wait for each answer. A record is one value here and is written
// whole, as YCSB does with writeallfields; without that, YCSB updates one field. YCSB leaves the
// number of records to its user: 100,000 of them, 100 MB, exceed the caches of a core. Workload E,
// scans, has no counterpart.
func ycsb(name, summary string, set map[string]string) Profile {
	all := map[string]string{
		"in-flight":    "1",
		"value-size":   "1000",
		"keys":         "100000",
		"distribution": DistributionZipfian,
		"theta":        "0.99",
	}
	maps.Copy(all, set)
	return Profile{Name: name, Summary: summary, Set: all}
}

// Profiles returns all profiles in display order. The caller owns the result.
func Profiles() []Profile {
	all := make([]Profile, len(profiles))
	for i, p := range profiles {
		p.Set = maps.Clone(p.Set)
		all[i] = p
	}
	return all
}

// ProfileByName returns the profile with that name. The error is an [*Error] that suggests the
// closest name.
func ProfileByName(name string) (Profile, error) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
	}
	names := profileNames()
	return Profile{}, &Error{Option: "profile", Problem: fmt.Sprintf("%q is not one of %s%s",
		name, strings.Join(names, ", "), suggest.For(name, names))}
}

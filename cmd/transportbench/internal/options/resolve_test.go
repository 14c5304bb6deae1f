package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
)

// given has what a user sets by flag, variable and file; file is YAML.
type given struct {
	args            []string
	env             map[string]string
	file            string
	defaults, fixed map[string]string
}

func resolve(t *testing.T, g given) (*Settings, error) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for name, value := range g.env {
		t.Setenv(name, value)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddCommon(flags)
	AddJSON(flags)
	AddRun(flags, g.defaults)
	args := g.args
	if g.file != "" {
		args = append(args, "--config", write(t, "config.yaml", g.file))
	}
	require.NoError(t, flags.Parse(args))
	return Resolve(flags, g.defaults, g.fixed)
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestDefaults(t *testing.T) {
	s, err := resolve(t, given{args: []string{"--profile", "pingpong"}})
	require.NoError(t, err)
	want := config.Default()
	want.Profile, want.ReadRatio = "pingpong", 1
	require.Equal(t, want, s.Config)
	require.Equal(t, []string{"shm"}, s.Transports)
	require.Equal(t, DefaultOut, s.Out)
	require.Empty(t, s.File)
	require.False(t, s.JSON || s.Verbose || s.AllowMixed)
	require.Equal(t, 10*time.Second, s.StartTimeout)
}

func TestPrecedence(t *testing.T) {
	flag := []string{"--read-ratio", "0.1"}
	env := map[string]string{"TRANSPORTBENCH_READ_RATIO": "0.2"}
	file := "read-ratio: 0.3\n"
	defaults := map[string]string{"read-ratio": "0.4"}
	profile := "--profile=pingpong" // says 1
	cases := []struct {
		name  string
		given given
		want  float64
	}{
		{"fixed by the command", given{append(flag, profile), env, file, defaults,
			map[string]string{"read-ratio": "0"}}, 0},
		{"flag", given{append(flag, profile), env, file, defaults, nil}, 0.1},
		{"variable", given{[]string{profile}, env, file, defaults, nil}, 0.2},
		{"file", given{[]string{profile}, nil, file, defaults, nil}, 0.3},
		{"profile", given{[]string{profile}, nil, "", defaults, nil}, 1},
		{"profile from the file", given{nil, nil, "profile: pingpong\n", nil, nil}, 1},
		{"profile from a variable",
			given{nil, map[string]string{"TRANSPORTBENCH_PROFILE": "pingpong"}, "", nil, nil}, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := resolve(t, c.given)
			require.NoError(t, err)
			require.InDelta(t, c.want, s.Config.ReadRatio, 0)
		})
	}
	s, err := resolve(t, given{defaults: map[string]string{"repeats": "7"}})
	require.NoError(t, err)
	require.Equal(t, 7, s.Config.Repeats, "the command's own default, which no profile sets")
}

func TestEveryOptionFromEverywhere(t *testing.T) {
	want := config.Config{
		Transport: "shm", Options: map[string]string{},
		Profile: "pingpong", Topology: "mesh-direct", Ranks: 3, Daemons: 2, Clients: 4, InFlight: 5,
		Keys: 6, ValueSize: config.FixedSize(4096), ReadRatio: 0.25, Distribution: "zipfian",
		Theta: 0.5, Seed: 7,
		TokensPerBlock: 128, BytesPerToken: 32, HotKeys: 0.1, HotShare: 0.9,
		RemoteShare: 0.75, Rate: 12_500, Arrival: "constant",
		Flush: "immediate", Idle: "yield", Pin: false,
		Warmup: config.Duration(time.Second), Duration: config.Duration(1500 * time.Millisecond),
		Repeats: 8, Launches: 2,
		VerifyEvery: 9, SampleEvery: 10, Burn: 11,
		ReadDelay: "20ms", WriteDelay: "exponential:10ms", StorageLanes: 12,
		LookupDelay: "1ms", WriteLanes: 13,
		Network: "loss=1%,delay=50us",
	}
	var args []string
	env := map[string]string{}
	file := ""
	for _, f := range config.Fields() {
		text := f.Show(&want)
		if slices.Contains([]string{"mix", "pattern", "service", "track", "traffic", "class",
			"servers", "interleave", "delegate", "full-scan", "cpus", "numa", "replay",
			"replay-format", "from", "for", "speed", "closed", "model", "handoff", "burst",
			"tensor-parallel"}, f.Name) {
			continue // they exclude others
		}
		require.NotEqual(t, f.Default, text, f.Name)
		args = append(args, "--"+f.Name+"="+text)
		env[variable(f.Name)] = text
		file += f.Name + ": " + text + "\n"
	}
	for name, g := range map[string]given{"flags": {args: args}, "variables": {env: env},
		"file": {file: file}} {
		t.Run(name, func(t *testing.T) {
			s, err := resolve(t, g)
			require.NoError(t, err)
			require.Equal(t, want, s.Config)
		})
	}
}

// TestService checks which operations a service replaces, and which it rejects.
func TestService(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		ratio   float64
		pattern string
		wrong   string // the option
	}{
		"a profile":         {[]string{"--profile", "echo"}, 1, "none", ""},
		"the default ratio": {[]string{"--service", "echo"}, 1, "none", ""},
		"a profile's mix": {[]string{"--profile", "ycsb-d", "--service", "sink"}, 0,
			"none", ""},
		"a profile's pattern": {[]string{"--profile", "kvcache", "--service", "echo"}, 1,
			"none", ""},
		"a pattern of writes": {[]string{"--profile", "bulk", "--service", "sink"}, 0,
			"write:128", ""},
		"another pattern of writes": {[]string{"--profile", "bulk", "--pattern", "write:2"}, 0,
			"write:2", ""},
		"a pattern of writes echoed": {[]string{"--profile", "bulk", "--service", "echo"}, 1,
			"none", ""},
		"the store": {[]string{"--profile", "bulk", "--service", "store"}, 0.5,
			"write:128", ""},
		"a ratio": {[]string{"--service", "sink", "--read-ratio", "1"}, 0, "",
			"read-ratio"},
		"a ratio for a profile": {[]string{"--profile", "echo", "--read-ratio", "0.5"}, 0, "",
			"read-ratio"},
		"a mix": {[]string{"--service", "echo", "--mix", "read:1"}, 0,
			"", "mix"},
		"a pattern": {[]string{"--service", "sink", "--pattern", "lookup:1"}, 0,
			"", "pattern"},
		"a typing error": {[]string{"--service", "ecko"}, 0, "", "service"},
	} {
		s, err := resolve(t, given{args: c.args})
		if c.wrong != "" {
			require.ErrorContains(t, err, "--"+c.wrong+": ", name)
			continue
		}
		require.NoError(t, err, name)
		require.InDelta(t, c.ratio, s.Config.ReadRatio, 0, name)
		require.Equal(t, c.pattern, s.Config.Pattern.String(), name)
	}
	c, err := build(map[string]string{"service": "echo"})
	require.NoError(t, err)
	require.InDelta(t, 1, c.ReadRatio, 0)
	c, err = build(map[string]string{"profile": "kvcache", "tokens-per-block": "16"})
	require.NoError(t, err)
	require.Equal(t, config.FixedSize(64), c.ValueSize, "of tokens")
	c, err = build(map[string]string{"profile": "kvcache", "value-size": "100"})
	require.NoError(t, err)
	require.Equal(t, config.FixedSize(100), c.ValueSize)
	_, err = build(map[string]string{"profile": "bulk"})
	require.NoError(t, err)
}

// TestTrack checks what the track matched verifies, and what contradicts it.
func TestTrack(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		track config.Track
		every int
		wrong string
	}{
		"shipped is the default": {nil, config.TrackShipped, 1, ""},
		"shipped": {[]string{"--track", "shipped", "--verify-every", "4"},
			config.TrackShipped, 4, ""},
		"matched": {[]string{"--track", "matched"}, config.TrackMatched, 1,
			""},
		"matched, over a profile": {[]string{"--track", "matched", "--profile", "echo"},
			config.TrackMatched, 1, ""},
		"matched, said twice": {[]string{"--track", "matched", "--verify-every", "1"},
			config.TrackMatched, 1, ""},
		"matched, with a sampling": {[]string{"--track", "matched", "--verify-every", "16"}, "",
			0, "--verify-every: 16 contradicts --track matched"},
		"a typing error": {[]string{"--track", "mached"}, "", 0,
			`did you mean "matched"?`},
		"the shipped profile's checks": {[]string{"--profile", "echo"}, config.TrackShipped, 16,
			""},
	} {
		s, err := resolve(t, given{args: c.args})
		if c.wrong != "" {
			require.ErrorContains(t, err, c.wrong, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, c.track, s.Config.Track, name)
		require.Equal(t, c.every, s.Config.VerifyEvery, name)
	}
	c, err := build(map[string]string{"profile": "echo", "track": "matched"})
	require.NoError(t, err)
	require.Equal(t, 1, c.VerifyEvery)
	_, err = build(map[string]string{"track": "matched", "verify-every": "2"})
	require.ErrorContains(t, err, "contradicts --track matched")
}

// TestTraffic checks the topology and the ranks of a pattern of traffic, and who may overrule them.
func TestTraffic(t *testing.T) {
	for _, c := range []struct {
		args     string
		env      string
		traffic  config.Traffic
		topology string
		ranks    int
		wrong    string
	}{
		{"--traffic incast:3", "", "incast:3", "client-server", 4, ""},
		{"--pattern incast:03", "", "incast:3", "client-server", 4, ""},
		{"--pattern fan-out", "", "fan-out", "client-server", 4, ""},
		{"--pattern fan-out --ranks 3", "", "fan-out", "client-server", 3, ""},
		{"--pattern all-to-all", "", "all-to-all", "mesh-direct", 4, ""},
		{"--pattern all-to-all --topology mesh-proxied", "", "all-to-all", "mesh-proxied", 4, ""},
		{"--pattern hotspot:0.50 --ranks 5", "", "hotspot:0.5", "mesh-direct", 5, ""},
		{"--traffic incast:2", "mesh-direct", "incast:2", "client-server", 3, ""},
		{"--profile kvcache --pattern fan-out", "", "fan-out", "client-server", 4, ""},
		{"--traffic none", "", "", "client-server", 2, ""},
		{"--pattern incast", "", "", "", 0,
			`"incast": the number of calling ranks is not from 1 to 1023; use incast:8`},
		{"--pattern incast:0", "", "", "", 0, "from 1 to 1023"},
		{"--traffic fan-out:3", "", "", "", 0,
			`--traffic: "fan-out:3": fan-out has no number; leave out ":3"`},
		{"--pattern fan-out:3", "", "", "", 0,
			`--pattern: "fan-out:3": fan-out has no number; leave out ":3"`},
		{"--pattern hotspot:1.5", "", "", "", 0, "above 0 and at most 1"},
		{"--traffic fanout", "", "", "", 0, `did you mean "fan-out"?`},
		{"--pattern incast:3 --ranks 2", "", "", "", 0,
			"incast:3 has 4 ranks with the one that serves, and not 2; leave --ranks out"},
		{"--pattern all-to-all --topology client-server", "", "", "", 0,
			"use --topology mesh-direct or mesh-proxied"},
		{"--pattern incast:2 --topology mesh-direct", "", "", "", 0,
			"use --topology client-server"},
		{"--pattern hotspot:0.5 --ranks 2", "", "", "", 0, "needs 3 ranks or more"},
		{"--pattern all-to-all --remote-share 0.5", "", "", "", 0,
			"--remote-share: cannot be combined with --traffic=all-to-all"},
	} {
		t.Run(c.args, func(t *testing.T) {
			g := given{args: strings.Fields(c.args)}
			if c.env != "" {
				g.env = map[string]string{"TRANSPORTBENCH_TOPOLOGY": c.env}
			}
			s, err := resolve(t, g)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.traffic, s.Config.Traffic)
			require.Equal(t, c.topology, s.Config.Topology)
			require.Equal(t, c.ranks, s.Config.Ranks)
		})
	}
	s, err := resolve(t, given{args: []string{"--profile", "kvcache", "--pattern", "fan-out"}})
	require.NoError(t, err)
	require.Equal(t, "lookup:7,read:6,write:3", s.Config.Pattern.String(),
		"the profile's pattern of operations stays")
	c, err := build(map[string]string{"traffic": "hotspot:0.5"})
	require.NoError(t, err)
	require.Equal(t, 4, c.Ranks)

	file := write(t, "traffic.csv", "0, 3,1\n0,0,0\n4,0,0\n")
	s, err = resolve(t, given{args: []string{"--traffic", "matrix:" + file}})
	require.NoError(t, err)
	require.EqualValues(t, "matrix:0:3:1/0:0:0/4:0:0", s.Config.Traffic, "its content")
	require.Equal(t, 3, s.Config.Ranks)
	require.Equal(t, "mesh-direct", s.Config.Topology)
	require.Equal(t, 2*s.Config.Clients*s.Config.InFlight, s.Config.CallsInFlight(),
		"one of the ranks calls none")
	_, err = resolve(t, given{args: []string{"--traffic", "matrix:" + file, "--ranks", "4"}})
	require.ErrorContains(t, err, "the matrix has 3 ranks, and not 4; leave --ranks out")
	_, err = resolve(t, given{args: []string{"--traffic",
		"matrix:" + write(t, "wrong.csv", "0,x\n1,0\n")}})
	require.ErrorContains(t, err, `wrong.csv: row 1, column 2: "x" is not a weight from 0`)
	_, err = resolve(t, given{args: []string{"--traffic", "matrix:none.csv"}})
	require.ErrorContains(t, err, "none.csv")
}

// TestClasses checks what classes of traffic replace, and what they refuse.
func TestClasses(t *testing.T) {
	both := []string{"--class", "bulk:1MiB,rate=500,clients=2", "--class", "rpc:64B,in-flight=4"}
	s, err := resolve(t, given{args: both})
	require.NoError(t, err)
	c := s.Config
	require.Len(t, c.Classes, 2)
	require.Equal(t, []any{3, 16, 1 << 20, config.ServiceEcho, 1.0},
		[]any{c.Clients, c.InFlight, c.ValueSize.Max(), c.Service, c.ReadRatio})
	s, err = resolve(t, given{args: append(both, "--profile", "bulk")})
	require.NoError(t, err)
	require.Equal(t, config.ServiceSink, s.Config.Service, "the profile's service stays")
	require.Empty(t, s.Config.Pattern)
	for option, args := range map[string][]string{
		"clients": {"--clients", "2"}, "in-flight": {"--in-flight", "2"},
		"value-size": {"--value-size", "9"},
		"rate":       {"--rate", "9"}, "service": {"--service", "store"},
		"pattern": {"--service", "sink", "--pattern", "write:2"},
		"class":   {"--class", "rpc:1"},
	} {
		_, err := resolve(t, given{args: append(args, both...)})
		require.ErrorContains(t, err, "--"+option+": ")
	}
	c, err = build(map[string]string{"class": "a:1;b:2,clients=3"})
	require.NoError(t, err)
	require.Equal(t, 4, c.Clients)
}

// TestWarmup: short windows shorten the default warm-up.
func TestWarmup(t *testing.T) {
	for _, c := range []struct {
		args []string
		want time.Duration
	}{
		{[]string{"--duration", "1s"}, 500 * time.Millisecond},
		{[]string{"--duration", "50ms"}, 500 * time.Millisecond},
		{[]string{"--duration", "20ms"}, 200 * time.Millisecond},
		{[]string{"--duration", "2ms"}, 50 * time.Millisecond},
		{[]string{"--duration", "2ms", "--warmup", "500ms"}, 500 * time.Millisecond},
		{[]string{"--duration", "2ms", "--warmup", "1ms"}, time.Millisecond},
	} {
		s, err := resolve(t, given{args: c.args})
		require.NoError(t, err)
		require.EqualValues(t, c.want, s.Config.Warmup, "%v", c.args)
	}
	c, err := build(map[string]string{"duration": "2ms"})
	require.NoError(t, err)
	require.EqualValues(t, 50*time.Millisecond, c.Warmup)
}

// build resolves one layer.
func build(values map[string]string) (config.Config, error) {
	c, _, err := config.Resolve(config.Layer{Values: values})
	return c, err
}

func TestSettings(t *testing.T) {
	s, err := resolve(t, given{args: []string{"--json", "-v", "--allow-mixed-runtime", "--out", "x",
		"--plugin-dir=y",
		"--start-timeout", "1m", "--transport", "shm, tcpx,shm"}})
	require.NoError(t, err)
	require.True(t, s.JSON && s.Verbose && s.AllowMixed)
	require.Equal(t, "x", s.Out)
	require.Equal(t, "y", s.PluginDir)
	require.Equal(t, time.Minute, s.StartTimeout)
	require.Equal(t, []string{"shm", "tcpx"}, s.Transports)

	s, err = resolve(t, given{file: "transport: [shm, ucxam]\nverbose: true\nout: z\n"})
	require.NoError(t, err)
	require.Equal(t, []string{"shm", "ucxam"}, s.Transports)
	require.True(t, s.Verbose)
	require.Equal(t, "z", s.Out)
}

func TestSetIsMergedByKey(t *testing.T) {
	s, err := resolve(t, given{
		args: []string{"--set", "a=flag", "--set", "list=x,y=z"},
		env:  map[string]string{"TRANSPORTBENCH_SET": `a=env,b=env,tls=rc\,self`},
		file: "set:\n  a: file\n  b: file\n  c: 4KiB\n  d: 7\n  e: true\n",
	})
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"a": "flag", "b": "env", "c": "4KiB", "d": "7", "e": "true", "list": "x,y=z",
		"tls": "rc,self",
	}, s.Set)
}

func TestFileFormats(t *testing.T) {
	for name, content := range map[string]string{
		"c.yaml": "in-flight: 32\nset:\n  ring: onesided\n",
		"c.toml": "in-flight = 32\n[set]\nring = \"onesided\"\n",
		"c.json": `{"in-flight": 32, "set": {"ring": "onesided"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, name, content)
			s, err := resolve(t, given{args: []string{"--config", path}})
			require.NoError(t, err)
			require.Equal(t, 32, s.Config.InFlight)
			require.Equal(t, map[string]string{"ring": "onesided"}, s.Set)
			require.Equal(t, path, s.File)
		})
	}
}

func TestUserFile(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "transportbench", "config.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("clients: 3\n"), 0o600))
	t.Setenv("XDG_CONFIG_HOME", home)
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddCommon(flags)
	s, err := Resolve(flags, nil, nil)
	require.NoError(t, err)
	require.Equal(t, 3, s.Config.Clients)
	require.Equal(t, path, s.File)
}

func TestErrors(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	cases := []struct {
		name  string
		given given
		want  []string
	}{
		{"unknown variable", given{env: map[string]string{"TRANSPORTBENCH_IN_FLIHT": "3"}},
			[]string{"TRANSPORTBENCH_IN_FLIHT: unknown variable",
				`did you mean "TRANSPORTBENCH_IN_FLIGHT"?`}},
		{"unknown key", given{file: "in_flight: 3\n"},
			[]string{"config.yaml: unknown key", `did you mean "in-flight"?`}},
		{"file that names a file", given{file: "config: x\n"}, []string{"cannot name another"}},
		{"no such file", given{args: []string{"--config", "/no/such.yaml"}},
			[]string{"--config", "/no/such.yaml: no such file"}},
		{"file of another kind", given{args: []string{"--config", write(t, "c.conf", "x")}},
			[]string{"--config", ".yaml, .toml or .json"}},
		{"a key twice", given{file: "keys: 1\nkeys: 2\n"},
			[]string{`config.yaml: line 2: mapping key "keys" already defined at line 1`}},
		{"a key twice in a profile",
			given{args: []string{"--profile", write(t, "own.yaml", "keys: 1\nkeys: 2\n")}},
			[]string{`own.yaml: line 2: mapping key "keys" already defined at line 1`}},
		{"broken file", given{file: "a: [\n"}, []string{"--config", "config.yaml"}},
		{"list in a file", given{file: "clients: [1, 2]\n"},
			[]string{"clients in", "not a plain value"}},
		{"set that is no table", given{file: "set: 3\n"}, []string{"set in", "not a table"}},
		{"ill-typed flag", given{args: []string{"--clients=many"}},
			[]string{`--clients: "many" is not a whole number`}},
		{"negative seed", given{args: []string{"--seed=-1"}},
			[]string{`--seed: "-1" is not a whole number from 0`}},
		{"ill-typed switch", given{args: []string{"--pin=perhaps"}},
			[]string{`--pin: "perhaps" is not true or false`}},
		{"ill-typed variable", given{env: map[string]string{"TRANSPORTBENCH_DURATION": "5"}},
			[]string{`TRANSPORTBENCH_DURATION: "5" is not a duration such as 500ms`}},
		{"ill-typed in a file", given{file: "pin: perhaps\n"},
			[]string{"pin in", `"perhaps" is not true or false`}},
		{"out of bounds flag", given{args: []string{"--keys=0"}},
			[]string{"--keys: 0 is out of range (1"}},
		{"ill-typed timeout", given{args: []string{"--start-timeout=soon"}},
			[]string{`--start-timeout: "soon" is not a duration`}},
		{"out of bounds timeout", given{args: []string{"--start-timeout=1ms"}},
			[]string{"--start-timeout: 1ms is out of range (100ms to 1h0m0s)"}},
		{"out of bounds variable", given{env: map[string]string{"TRANSPORTBENCH_KEYS": "0"}},
			[]string{"TRANSPORTBENCH_KEYS: 0 is out of range (1"}},
		{"out of bounds in a file", given{file: "repeats: 0\n"},
			[]string{"repeats in", "0 is out of range (1"}},
		{"more daemons than keys", given{args: []string{"--daemons=3", "--keys=2"}},
			[]string{"--daemons: 3 daemons for 2 keys", "--keys 3"}},
		{"no such histogram", given{args: []string{"--value-size=file:/no/such"}},
			[]string{"--value-size: /no/such: no such file"}},
		{"directory for a histogram", given{args: []string{"--value-size=file:/"}},
			[]string{"--value-size: /: is a directory"}},
		{"broken histogram",
			given{args: []string{"--value-size=file:" + write(t, "h", "64 9\n65\n")}},
			[]string{"--value-size: ", "line 2", "not a size and a weight"}},
		{"broken histogram in a file", given{file: "value-size: histogram:64\n"},
			[]string{"value-size in", "size=weight"}},
		{"size of another kind", given{args: []string{"--value-size=normal:5"}},
			[]string{"--value-size:", "uniform:64-4KiB"}},
		{"mix that is not 1", given{args: []string{"--mix=read:0.5,write:0.4"}},
			[]string{"--mix: the shares add up to 0.9"}},
		{"unknown operation", given{env: map[string]string{"TRANSPORTBENCH_PATTERN": "reed:1"}},
			[]string{"TRANSPORTBENCH_PATTERN:", `did you mean "read"?`}},
		{"unknown distribution", given{args: []string{"--distribution=latst"}},
			[]string{"--distribution:", `did you mean "latest"?`}},
		{"unknown profile", given{args: []string{"--profile=pingpon"}},
			[]string{"--profile:", `did you mean "pingpong"?`}},
		{"unknown profile in a file", given{file: "profile: k\n"},
			[]string{"profile in", "is not one of"}},
		{"set without a value", given{args: []string{"--set", "ring"}},
			[]string{`--set: "ring" is not of the form key=value`}},
		{"all among others", given{args: []string{"--transport", "all,shm"}},
			[]string{`--transport: "all,shm": all must stand alone`}},
		{"an empty transport", given{args: []string{"--transport", "shm,"}},
			[]string{`--transport: "shm," has an empty name`}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := resolve(t, c.given)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestProfilesSetKnownKeys(t *testing.T) {
	for _, p := range config.Profiles() {
		for key := range p.Set {
			require.Contains(t, keys(), key, p.Name)
		}
		_, err := resolve(t, given{args: []string{"--profile", p.Name}})
		require.NoError(t, err)
	}
}

func TestReplacingOptions(t *testing.T) {
	var lookups config.Pattern
	require.NoError(t, lookups.Set("lookup:7,read:6,write:3"))
	inserts := config.Mix{{Op: config.OpRead, Share: 0.95}, {Op: config.OpInsert, Share: 0.05}}
	half := config.Mix{{Op: config.OpRead, Share: 0.5}, {Op: config.OpWrite, Share: 0.5}}
	cases := []struct {
		name    string
		given   given
		mix     config.Mix
		pattern config.Pattern
		size    int
		token   config.Size
	}{
		{"profile's mix", given{args: []string{"--profile=ycsb-d"}}, inserts, nil, 1000, 0},
		{"a ratio above it", given{args: []string{"--profile=ycsb-d", "--read-ratio=0.9"}}, nil,
			nil, 1000, 0},
		{"a ratio in the file above it", given{args: []string{"--profile=ycsb-d"},
			file: "read-ratio: 0.9\n"}, nil, nil, 1000, 0},
		{"a ratio beside a mix",
			given{args: []string{"--mix=read:0.5,write:0.5", "--read-ratio=0.9"}}, half,
			nil, 32, 0},
		{"a ratio below a mix", given{args: []string{"--mix=read:0.5,write:0.5"},
			file: "read-ratio: 0.9\n"}, half, nil, 32, 0},
		{"profile's pattern", given{args: []string{"--profile=kvcache"}}, nil, lookups, 512, 4},
		{"a mix above it", given{args: []string{"--profile=kvcache", "--mix=read:0.5,write:0.5"}},
			half, nil, 512, 4},
		{"a pattern above a mix",
			given{args: []string{"--profile=ycsb-d", "--pattern=lookup:7,read:6,write:3"}}, nil,
			lookups, 1000, 0},
		{"no pattern", given{args: []string{"--profile=kvcache", "--pattern=none"}}, nil,
			nil, 512, 4},
		{"larger tokens", given{args: []string{"--profile=kvcache", "--bytes-per-token=128KiB"}},
			nil, lookups, 16 << 20, 128 << 10},
		{"larger blocks", given{args: []string{"--profile=kvcache", "--tokens-per-block=256"}}, nil,
			lookups, 1024, 4},
		{"a size above it", given{args: []string{"--profile=kvcache", "--value-size=1KiB"}}, nil,
			lookups, 1024, 0},
		{"a variable above the file",
			given{env: map[string]string{"TRANSPORTBENCH_VALUE_SIZE": "7"},
				file: "tokens-per-block: 2\nbytes-per-token: 4\n"}, nil, nil, 7, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := resolve(t, c.given)
			require.NoError(t, err)
			require.Equal(t, c.mix, s.Config.Mix)
			require.Equal(t, c.pattern, s.Config.Pattern)
			require.Equal(t, config.FixedSize(config.Size(c.size)), s.Config.ValueSize)
			require.Equal(t, c.token, s.Config.BytesPerToken)
		})
	}
	for problem, args := range map[string][]string{
		"--value-size: differs from the 512 of": {"--tokens-per-block=128",
			"--bytes-per-token=4", "--value-size=1KiB"},
		"--pattern: cannot be combined with a mix": {"--pattern=read:1", "--mix=read:1"},
		"--bytes-per-token: 9223372036854775807": {"--profile=kvcache",
			"--bytes-per-token=9223372036854775807"},
	} {
		_, err := resolve(t, given{args: args})
		require.ErrorContains(t, err, problem)
	}
}

func TestSizesFromAFile(t *testing.T) {
	path := write(t, "sizes.txt", "# of a trace\n64 9\n4KiB 1\n")
	for _, g := range []given{
		{args: []string{"--value-size", "file:" + path}},
		{file: "value-size: file:" + path + "\n"},
		{env: map[string]string{"TRANSPORTBENCH_VALUE_SIZE": "file:" + path}},
	} {
		s, err := resolve(t, g)
		require.NoError(t, err)
		require.Equal(t, "histogram:64=9,4KiB=1", s.Config.ValueSize.String())
	}
}

func TestOtherVariables(t *testing.T) {
	_, err := resolve(t, given{env: map[string]string{"TRANSPORTBENCH_PLUGIN_PATH": "/x",
		"TRANSPORTBENCH_LOG_LEVEL": "debug"}})
	require.NoError(t, err)
}

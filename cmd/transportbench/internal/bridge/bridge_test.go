package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/base/config"
	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
	"transportbench/core/transport"
)

// The old version's plugins are found by their digest, by their revision, or built where that can
// be done; else the command is only a hint.
func TestCommand(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	plugin := func(dir, content string) (sum string) {
		require.NoError(t, os.MkdirAll(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "transport-shm"),
			[]byte(content), 0o600))
		digest := sha256.Sum256([]byte(content))
		return hex.EncodeToString(digest[:])
	}
	of := func(revision, sum string) *set.Set {
		s := set.New()
		for _, inFlight := range []string{"1", "32"} {
			run, _, err := config.Resolve(config.Layer{Values: map[string]string{
				"profile": "echo", "in-flight": inFlight, "value-size": "4KiB"}})
			require.NoError(t, err)
			run.Options = map[string]string{"ring": "onesided", "device": "", "slots": "64",
				"pages": "4KiB"}
			if revision == "" {
				run.Options["new"] = "1"
			}
			cell := set.Cell{Status: set.Measured, Run: &run,
				Tool: &result.Tool{Revision: revision}, Plugin: set.Plugin{SHA256: sum}}
			cell.Config, err = set.Flatten(run)
			require.NoError(t, err)
			s.Cells = append(s.Cells, cell)
		}
		return s
	}
	report := &compare.Report{Changes: []compare.Change{
		{Transport: "shm"},
		{Transport: "shm", Control: &compare.Control{}, Verdict: compare.Ambiguous,
			Config: of("", "").Cells[1].Config},
	}}
	used := filepath.Join(home, "plugins")
	now := plugin(used, "now")
	const revision = "0123456789abcdef0123456789abcdef01234567"
	executable := filepath.Join(home, "prefix/bin/transportbench")
	// slots has its default on both sides, device in the old version only, and pages wherever it
	// is known.
	schemaOf := func(dir, of string) []transport.Option {
		require.Equal(t, "shm", of)
		schema := []transport.Option{{Name: "ring", Default: "auto"},
			{Name: "slots", Default: "64"}}
		switch {
		case dir == used:
			return append(schema, transport.Option{Name: "device", Default: "eth0"})
		case strings.HasPrefix(dir, "$"):
			return nil
		}
		return append(schema, transport.Option{Name: "device"},
			transport.Option{Name: "pages", Default: "4KiB"})
	}
	command := func(sum string) string {
		return Command(report, of(revision, sum), of("", now), Kept(executable), []string{used},
			schemaOf)
	}
	require.Equal(t, compare.Bridge, command("gone"))

	const load = "ab --transport shm --profile echo --in-flight 32 --value-size 4KiB --set device= "
	const ab = load + "--set ring=onesided --a plugin-dir="
	const unknown = load + "--set pages=4KiB --set ring=onesided --a plugin-dir="
	require.NoError(t, os.Mkdir("scripts", 0o755))
	require.NoError(t, os.WriteFile(builder, nil, 0o600))
	require.Equal(t, unknown+"$(scripts/old-plugins.sh 0123456789ab) --b plugin-dir="+used,
		command("gone"))
	built := filepath.Join(home, "cache/transportbench/plugins/0123456789ab")
	plugin(built, "built again")
	require.Equal(t, ab+built+" --b plugin-dir="+used, command("gone"))
	kept := filepath.Join(home, "prefix/lib/transportbench/kept/other")
	require.Equal(t, ab+kept+" --b plugin-dir="+used, command(plugin(kept, "kept")))
	require.Equal(t, unknown+used+" --b plugin-dir="+used, command(now))
}

// The flags of a configuration give it, whatever the options of its set had in common.
func TestFlags(t *testing.T) {
	cases := []map[string]string{
		{"value-size": "4KiB"}, {"value-size": "uniform:64-4KiB", "mix": "read:0.9,insert:0.1"},
		{"value-size": "histogram:64=9,4KiB=1"}, {"bytes-per-token": "0"},
		{"pattern": "lookup:2,read:1"}, {"topology": "mesh-proxied", "remote-share": "0.5"},
		{"traffic": "incast"}, {"traffic": "incast", "ranks": "4"}, {"pin": "false"},
		{"class": "rpc:64B,in-flight=1,slo=50us;bulk:1MiB,rate=500,clients=2"},
		{"rate": "max", "arrival": "constant"}, {"track": "matched"}, {"idle": "park"},
		{"track": "matched", "verify-every": "8"}, {"service": "echo"}, {"service": "sink"},
		{"duration": "20ms"}, {"duration": "20ms", "warmup": "1s"}, {"model": "llama-3.1-8b"},
		{"read-delay": "lognormal:50us,200us"}, {"network": "loss=1%"}, {"burn": "60ns"},
	}
	for _, profile := range config.Profiles() {
		for _, values := range cases {
			values = maps.Clone(values)
			values["profile"] = profile.Name
			want, _, err := config.Resolve(config.Layer{Values: values})
			if err != nil {
				continue // a profile does not go with all options
			}
			require.Equal(t, want, parse(t, flags(&want)), "%v", values)
		}
	}
	custom := config.Default()
	custom.Profile, custom.Clients = "ours", 3
	require.Equal(t, []string{"--transport shm", "--clients 3"}, flags(&custom))

	// A trace is not in a result, and the options that it sets are not given beside it.
	trace := func(*config.Config) (*config.Replay, error) {
		return &config.Replay{Digest: "0123456789abcdef0123", Format: "own", Keys: 100,
			WorkingSet: 6400, Length: 1e9, ValueSize: config.FixedSize(64),
			ReplayPart: config.ReplayPart{Operations: 1000, Forth: 1, Back: 1}}, nil
	}
	for _, values := range []map[string]string{{}, {"in-flight": "1"}, {"speed": "2"},
		{"closed": "true", "duration": "50ms"}} {
		values["replay"] = "file.csv"
		layer := config.Layer{Values: values, Trace: trace}
		want, _, err := config.Resolve(layer)
		require.NoError(t, err)
		list := flags(&want)
		require.Contains(t, list, "--replay TRACE")
		again := config.Layer{Values: texts(t, list), Trace: trace}
		got, _, err := config.Resolve(again)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// texts returns the values of flags as a shell splits them.
func texts(t *testing.T, list []string) map[string]string {
	values := map[string]string{}
	for _, flag := range list {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), " ")
		if name, value, found := strings.Cut(name, "="); found {
			values[name] = value
			continue
		}
		out, err := exec.Command("sh", "-c", "printf %s "+value).Output()
		require.NoError(t, err)
		if name != "transport" {
			values[name] = string(out)
		}
	}
	return values
}

func parse(t *testing.T, list []string) config.Config {
	c, _, err := config.Resolve(config.Layer{Values: texts(t, list)})
	require.NoError(t, err, list)
	return c
}

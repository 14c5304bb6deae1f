package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"transportbench/core/lab/judge/compare"
	"transportbench/core/lab/store/result"
	"transportbench/core/lab/store/set"
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
			s.Cells = append(s.Cells, set.Cell{Status: set.Measured, Config: map[string]string{
				"transport": "shm", "profile": "echo", "in_flight": inFlight},
				Tool: &result.Tool{Revision: revision}, Plugin: set.Plugin{SHA256: sum}})
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
	command := func(sum string) string {
		return Command(report, of(revision, sum), of("", now), Kept(executable), []string{used})
	}
	require.Equal(t, compare.Bridge, command("gone"))

	const ab = "ab --transport shm --profile echo --in-flight 32 --a plugin-dir="
	require.NoError(t, os.Mkdir("scripts", 0o755))
	require.NoError(t, os.WriteFile(builder, nil, 0o600))
	require.Equal(t, ab+"$(scripts/old-plugins.sh 0123456789ab) --b plugin-dir="+used,
		command("gone"))
	built := filepath.Join(home, "cache/transportbench/plugins/0123456789ab")
	plugin(built, "built again")
	require.Equal(t, ab+built+" --b plugin-dir="+used, command("gone"))
	kept := filepath.Join(home, "prefix/lib/transportbench/kept/other")
	require.Equal(t, ab+kept+" --b plugin-dir="+used, command(plugin(kept, "kept")))
	require.Equal(t, ab+used+" --b plugin-dir="+used, command(now))
}

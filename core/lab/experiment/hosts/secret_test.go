package hosts

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "secret")
	made, err := MakeSecret(path)
	require.NoError(t, err)
	again, err := MakeSecret(path)
	require.NoError(t, err)
	require.Equal(t, made, again)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	number := Token{1}
	require.Equal(t, made.Token(number), again.Token(number))
	require.NotEqual(t, number, made.Token(number))
	require.NotEqual(t, made.Token(Token{2}), made.Token(number))
	require.NotEqual(t, Secret("another secret of 16").Token(number), made.Token(number))
}

func TestBadSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"open":  {"0123456789abcdef", 0o640, "other users can read it"},
		"short": {"0123456789abcde\n", 0o600, "a secret of 15 bytes"},
	} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(c.text), c.mode))
		_, err := MakeSecret(path)
		require.ErrorContains(t, err, c.says)
		require.NotContains(t, err.Error(), "0123")
	}
	_, err := ReadSecret(filepath.Join(dir, "missing"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "copy that file here from the coordinator's host")
}

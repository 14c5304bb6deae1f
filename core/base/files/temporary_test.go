package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTemporary(t *testing.T) {
	dir := t.TempDir()
	f, err := Temporary(filepath.Join(dir, "not", "yet"))
	require.NoError(t, err)
	_, err = f.WriteString("text")
	require.NoError(t, err)
	text, err := os.ReadFile(PathOf(f))
	require.NoError(t, err)
	require.Equal(t, "text", string(text))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, names)
	path := PathOf(f)
	require.NoError(t, f.Close())
	_, err = os.ReadFile(path)
	require.Error(t, err, "it is gone")
}
